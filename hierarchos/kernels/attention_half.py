"""Attention over halves: on matrix units where the device has them, else widened to fp32."""
from __future__ import annotations

from hierarchos.kernels.launch import Lowering, Operand, Profile
from hierarchos.kernels.widen import lower_widened


def half_forward(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """q, k, v and the rule's optional inputs -> out and log-sum-exp."""
    return lower_widened(op.wide, inputs, outputs, profile)


def half_backward(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """q, k, v, out, log-sum-exp, dout and the rule's optional inputs -> dq, dk, dv."""
    return lower_widened(op.wide, inputs, outputs, profile)
