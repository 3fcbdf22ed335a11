"""Attention of new tokens over cached keys and values, which it extends."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Alias, Op, ShapeError, apply
from hierarchos.graph.ops.rope import Rope
from hierarchos.graph.tensor import Spec, Tensor
from hierarchos.kernels.cached_attention import CachedRule


@dataclass(frozen=True)
class CachedAttention(Op):
    """Inputs as `rule.names`: q [B,T,Hq,D], k [B,T,Hk,D], v [B,T,Hk,Dv], states keys [B,S,Hk,D] and values [B,S,Hk,Dv], offset i32 [B],
    count i32 [B] (ring or counted), slopes f32 [Hq], cos and sin [P,R/2], positions i32 [B,T] -> out [B,T,Hq,Dv] and both states
    after the write."""

    rule: CachedRule
    strided_inputs = (0, 1, 2)

    def infer(self, inputs):
        named = dict(zip(self.rule.names, inputs, strict=True))
        q, k, v, keys, values = (named[name].shape for name in ("q", "k", "v", "keys", "values"))
        if (
            q[:2] != k[:2]
            or k[:3] != v[:3]
            or q[3] != k[3]
            or q[2] % k[2]
            or keys[2:] != k[2:]
            or values[2:] != v[2:]
            or keys[:2] != values[:2]
        ):
            raise ShapeError(f"cached attention: q {list(q)}, k {list(k)}, v {list(v)}, caches {list(keys)} and {list(values)} do not fit")
        if self.rule.ring and self.rule.window and keys[1] < self.rule.window + q[1] - 1:
            raise ShapeError(f"cached attention: a ring of {keys[1]} slots for a window of {self.rule.window} and {q[1]} tokens")
        return [Spec((*q[:3], v[3])), named["keys"], named["values"]]

    def reference(self, inputs):
        from hierarchos.kernels.cached_attention import cached_attention_reference

        return cached_attention_reference(self.rule, inputs)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.cached_attention import lower_cached_attention

        return lower_cached_attention(self.rule, inputs, profile)

    def alias(self, slot, inputs):
        return Alias(2 + slot, mutates=True) if slot else None


def cached_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor,
    values: Tensor,
    offset: Tensor,
    count: Tensor | None = None,
    *,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    slopes: Tensor | None = None,
    ring: bool = False,
) -> Tensor:
    """out [B,T,Hq,Dv]; `count` where some of several tokens may be padding. Rotations of q and k that nobody else made use of move into
    the op."""
    layout, tables = None, ()
    rotation = q.node.op
    if isinstance(rotation, Rope) and rotation == k.node.op == Rope(rotation.layout) and q.node.inputs[1:] == k.node.inputs[1:]:
        layout, tables = rotation.layout, q.node.inputs[1:]
        q, k = q.node.inputs[0], k.node.inputs[0]
    scale, counted = q.shape[-1] ** -0.5 if scale is None else float(scale), count is not None and not ring
    rule = CachedRule(scale, window, softcap, slopes is not None, ring, layout, counted)
    more = [t for t in (count, slopes) if t is not None]
    return apply(CachedAttention(rule), q, k, v, keys, values, offset, *more, *tables)[0]
