"""Scaled dot-product attention that never stores its scores, and its derivative."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.graph.op import Op, ShapeError, apply
from hierarchos.graph.tensor import Node, Spec, Tensor
from hierarchos.kernels.attention_rule import AttentionRule

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.kernels.launch import Lowering, Operand, Profile


@dataclass(frozen=True)
class Attention(Op):
    """q [B,T,Hq,D], k [B,S,Hk,D], v [B,S,Hk,Dv], optional inputs of the rule -> out [B,T,Hq,Dv], log-sum-exp [B,Hq,T]."""

    rule: AttentionRule
    strided_inputs = (0, 1, 2)

    def infer(self, inputs: list[Spec]) -> list[Spec]:
        check_operands(self.rule, inputs, required=3)
        q, v = inputs[0].shape, inputs[2].shape
        return [Spec((q[0], q[1], q[2], v[3])), Spec((q[0], q[2], q[1]))]

    def vjp(self, node: Node, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """The log-sum-exp is for the backward pass only: nothing differentiates it."""
        assert gradients[1] is None, "the log-sum-exp of an attention has no derivative"
        absent = [None] * len(self.rule.optional)
        if gradients[0] is None:
            return [None, None, None, *absent]
        out, lse = node.outputs
        backward = AttentionBackward(self.rule)
        return [*apply(backward, *node.inputs[:3], out, lse, gradients[0], *node.inputs[3:]), *absent]

    def reference(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        from hierarchos.kernels.attention_reference import attention_reference

        return attention_reference(self.rule, *inputs[:3], dict(zip(self.rule.optional, inputs[3:], strict=True)))

    def lower(self, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
        from hierarchos.kernels.attention import attention

        return attention(self.rule, inputs, outputs, profile)


@dataclass(frozen=True)
class AttentionBackward(Op):
    """q, k, v, out, log-sum-exp, dout, optional inputs of the rule -> dq, dk, dv."""

    rule: AttentionRule
    strided_inputs = (0, 1, 2)

    def infer(self, inputs: list[Spec]) -> list[Spec]:
        check_operands(self.rule, inputs, required=6)
        return [Spec(s.shape) for s in inputs[:3]]

    def reference(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        from hierarchos.kernels.attention_reference import attention_backward_reference

        return attention_backward_reference(self.rule, *inputs[:6], dict(zip(self.rule.optional, inputs[6:], strict=True)))

    def lower(self, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
        from hierarchos.kernels.attention import attention_backward

        return attention_backward(self.rule, inputs, outputs, profile)


def attention(q: Tensor, k: Tensor, v: Tensor, segments_q: Tensor | None = None, segments_k: Tensor | None = None, causal: bool = True,
              window: int | None = None, scale: float | None = None, dropout: float = 0.0, seed: Tensor | None = None, stream: int = 0,
              query_offset: Tensor | None = None, softcap: float | None = None, slopes: Tensor | None = None) -> Tensor:
    """softmax(scale q k^T, over what each query sees) v: q [B,T,Hq,D], k [B,S,Hk,D], v [B,S,Hk,Dv] -> [B,T,Hq,Dv].

    Query i sees key j when (not causal or j <= i + o) and (window is None or |i + o - j| < window) and their segments
    (i32 [B,T], [B,S]) are equal. o is `query_offset` (i32 [B]), S - T when it is not given. A query that sees nothing
    gives zeros. Query head h uses key head h // (Hq / Hk). scale: D**-0.5 when not given. dropout: probability that a
    weight is dropped, drawn from (`seed` u32 [2], `stream`) by position. softcap c: c tanh(s / c) in place of the scaled score
    s. slopes f32 [Hq] (ALiBi; they get no gradient): slope (i + o - j) is taken from the score. Raises ShapeError.
    """
    if (segments_q is None) != (segments_k is None):
        raise ShapeError("attention: segments_q and segments_k come together")
    if dropout > 0 and seed is None:
        raise ShapeError(f"attention: dropout={dropout} needs a seed (u32 [2])")
    rule = AttentionRule(q.shape[-1] ** -0.5 if scale is None else float(scale), causal, window, float(dropout), stream,
                         segments_q is not None, query_offset is not None, softcap, slopes is not None)
    optional = {"segments_q": segments_q, "segments_k": segments_k, "seed": seed, "query_offset": query_offset, "slopes": slopes}
    return apply(Attention(rule), q, k, v, *(optional[name] for name in rule.optional))[0]


def check_operands(rule: AttentionRule, inputs: list[Spec], required: int) -> None:
    """Raises ShapeError unless the operands of an attention or of its backward pass fit each other."""
    q, k, v = (s.shape for s in inputs[:3])
    if any(len(s) != 4 for s in (q, k, v)):
        raise ShapeError(f"attention: q, k and v have four axes [batch, time, heads, channels]; found {list(q)}, {list(k)}, {list(v)}")
    if q[0] != k[0] or k[:3] != v[:3] or q[3] != k[3] or k[2] == 0 or q[2] % k[2]:
        raise ShapeError(f"attention: q {list(q)}, k {list(k)}, v {list(v)} do not fit (q [B,T,Hq,D], k [B,S,Hk,D], v [B,S,Hk,Dv], "
                         "Hq a multiple of Hk)")
    if not 0.0 <= rule.dropout < 1.0:
        raise ShapeError(f"attention: dropout={rule.dropout} is not in [0, 1)")
    if rule.window is not None and rule.window < 1:
        raise ShapeError(f"attention: window={rule.window} is not at least 1")
    if rule.softcap is not None and rule.softcap <= 0:
        raise ShapeError(f"attention: softcap={rule.softcap} is not above 0")
    expected = [q, k, v, (q[0], q[1], q[2], v[3]), (q[0], q[2], q[1]), (q[0], q[1], q[2], v[3])][:required]
    optional = {"segments_q": (q[:2], "i32"), "segments_k": (k[:2], "i32"), "seed": ((2,), "u32"), "query_offset": (q[:1], "i32"),
                "slopes": (q[2:3], "f32")}
    wanted = [(shape, "f32") for shape in expected] + [optional[name] for name in rule.optional]
    found = [(s.shape, s.dtype) for s in inputs]
    if found != wanted:
        raise ShapeError(f"attention: inputs {found} where {wanted} fit")
