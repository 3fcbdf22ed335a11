"""LayerNorm and mixing with the token before, as one op; formulas and layouts: kernels/norm_mix.py."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Op, ShapeError, apply
from hierarchos.graph.ops.leaf import full
from hierarchos.graph.tensor import Spec, Tensor
from hierarchos.kernels.norm_mix import norm_mix_gradient_reference, norm_mix_reference

PARTS = ((3, 2, 1), (1,))


@dataclass(frozen=True)
class NormMix(Op):
    """Inputs x [B,w], affine [2,B,w], previous [B,w], mix [G,B,w]; outputs kept [B,w] and parts of the mixtures."""

    parts: tuple[int, ...]
    bound: float
    strided_inputs = (1, 3)

    def infer(self, inputs):
        x, affine, previous, mix = (spec.shape for spec in inputs)
        if affine != (2, *x) or previous != x or mix != (sum(self.parts), *x) or self.parts not in PARTS:
            raise ShapeError(f"norm_mix: x {list(x)}, affine {list(affine)}, previous {list(previous)}, mix {list(mix)} do not fit")
        return [inputs[0], *(Spec((count, *x) if count > 1 else x) for count in self.parts)]

    def vjp(self, node, gradients):
        arriving = [full(spec.shape, 0.0) if g is None else g for g, spec in zip(gradients, node.specs, strict=True)]
        return list(apply(NormMixGradient(self.parts, self.bound), *node.inputs, *arriving))

    def reference(self, inputs):
        return norm_mix_reference(self.parts, self.bound, *inputs)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.norm_mix import norm_mix
        return norm_mix(self.parts, self.bound, inputs, outputs, profile)


@dataclass(frozen=True)
class NormMixGradient(Op):
    """Inputs of NormMix, gradient of kept, gradients of the parts; outputs gradients of its four inputs."""

    parts: tuple[int, ...]
    bound: float
    strided_inputs = (1, 3)

    def infer(self, inputs):
        return list(inputs[:4])

    def reference(self, inputs):
        return norm_mix_gradient_reference(self.bound, *inputs)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.norm_mix import norm_mix_gradient
        return norm_mix_gradient(self.parts, self.bound, inputs, outputs, profile)


def norm_mix(x: Tensor, affine: Tensor, previous: Tensor, mix: Tensor, bound: float) -> tuple[Tensor, ...]:
    """(kept, parts...): six mixtures come in parts of 3, 2 and 1, one mixture in one part."""
    return apply(NormMix((3, 2, 1) if mix.shape[0] == 6 else (1,), bound), x, affine, previous, mix)
