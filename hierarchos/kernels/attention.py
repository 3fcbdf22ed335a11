"""Attention: which shaders, how many workgroups, which arguments. NumPy twins: attention_reference.py."""
from __future__ import annotations

from hierarchos.kernels.attention_blocks import blocks_backward, blocks_forward, fits
from hierarchos.kernels.attention_lanes import lanes_backward, lanes_forward
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.attention_split import split_backward, split_forward, usable
from hierarchos.kernels.attention_tiles import tiles_backward, tiles_forward
from hierarchos.kernels.launch import Lowering, Operand, Profile


def attention(rule: AttentionRule, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """q, k, v and the rule's optional inputs -> out and log-sum-exp."""
    shape = AttentionShape.of(*(o.shape for o in inputs[:3]))
    if profile.device_class == "gpu":
        found = usable(rule, shape, inputs, profile, backward=False)
        if found:
            return split_forward(rule, shape, inputs, found, profile)
        return (blocks_forward if fits(shape, profile, backward=False) else tiles_forward)(rule, shape, inputs, profile)
    return lanes_forward(rule, shape, inputs, profile)


def attention_backward(rule: AttentionRule, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """q, k, v, out, log-sum-exp, dout and the rule's optional inputs -> dq, dk, dv."""
    shape = AttentionShape.of(*(o.shape for o in inputs[:3]))
    if profile.device_class == "gpu":
        found = usable(rule, shape, inputs, profile, backward=True)
        if found:
            return split_backward(rule, shape, inputs, found, profile)
        return (blocks_backward if fits(shape, profile, backward=True) else tiles_backward)(rule, shape, inputs, profile)
    return lanes_backward(rule, shape, inputs, profile)
