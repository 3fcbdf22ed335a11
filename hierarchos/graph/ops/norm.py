"""LayerNorm and RMSNorm over the last axis, with what their backward needs as extra outputs.

LayerNorm: y = (x - mean) * rstd * (weight_offset + weight) + bias,  rstd = 1 / sqrt(mean((x - mean)^2) + eps)
RMSNorm:   y = x * rstd * (weight_offset + weight), rstd = 1 / sqrt(mean(x^2) + eps)

With h = gradient * scale and n = (x - mean) * rstd (mean = 0 for RMSNorm):
    dx = rstd * (h - mean(h) [LayerNorm only] - n * mean(h * n)),
    dweight = sum over rows of gradient * n,  dbias = sum over rows of gradient
"""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Op, ShapeError, apply
from hierarchos.graph.tensor import Spec, Tensor
from hierarchos.kernels.norm import norm_input_gradient_reference, norm_reference, norm_weight_gradient_reference


@dataclass(frozen=True)
class Norm(Op):
    """Inputs x [..., D], weight [D]?, bias [D]?; outputs y [..., D], rstd [...], and for "layer" also mean [...]."""

    kind: str                       # "layer" or "rms"
    eps: float
    weight: bool
    bias: bool = False
    weight_offset: float = 0.0

    def infer(self, inputs):
        x = inputs[0]
        for name, other in zip([n for n in ("weight", "bias") if getattr(self, n)], inputs[1:], strict=True):
            if other.shape != x.shape[-1:]:
                raise ShapeError(f"{self.kind}_norm: {name} has shape {list(other.shape)}, the last axis of x {list(x.shape)} needs "
                                 f"{list(x.shape[-1:])}")
        return [x, *[Spec(x.shape[:-1])] * (2 if self.kind == "layer" else 1)]

    def vjp(self, node, gradients):
        g = gradients[0]
        if g is None:
            return [None] * len(node.inputs)
        x, saved = node.inputs[0], node.outputs[1:]
        weight = node.inputs[1:2] if self.weight else ()
        results = [apply(NormInputGradient(self.kind, self.weight, self.weight_offset), g, x, *saved, *weight)[0]]
        if self.weight or self.bias:
            results += apply(NormWeightGradient(self.kind, self.weight, self.bias), g, x, *saved)
        return results

    def reference(self, inputs):
        rest = list(inputs[1:])
        weight = rest.pop(0) if self.weight else None
        return norm_reference(self.kind, inputs[0], weight, rest.pop(0) if self.bias else None, self.eps, self.weight_offset)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.norm import norm
        return norm(self, inputs, outputs, profile)


@dataclass(frozen=True)
class NormInputGradient(Op):
    """Inputs gradient, x, rstd, mean (layer only), weight?, base?; output dx, with `base` added (the residual's gradient)."""

    kind: str
    weight: bool
    weight_offset: float = 0.0
    base: bool = False

    def infer(self, inputs):
        return [inputs[1]]

    def reference(self, inputs):
        g, x, rstd, *rest = inputs
        mean = rest.pop(0) if self.kind == "layer" else None
        dx = norm_input_gradient_reference(g, x, rstd, mean, rest[0] if self.weight else None, self.weight_offset)
        return [dx + rest[-1] if self.base else dx]

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.norm import norm_input_gradient
        return norm_input_gradient(self, inputs, outputs, profile)


@dataclass(frozen=True)
class NormWeightGradient(Op):
    """Inputs gradient, x, rstd, mean (layer only); outputs dweight [D]?, dbias [D]?: sums over all rows in a fixed order."""

    kind: str
    weight: bool
    bias: bool = False

    def infer(self, inputs):
        return [Spec(inputs[1].shape[-1:])] * (self.weight + self.bias)

    def reference(self, inputs):
        g, x, rstd, *mean = inputs
        dweight, dbias = norm_weight_gradient_reference(g, x, rstd, mean[0] if mean else None)
        return ([dweight] if self.weight else []) + ([dbias] if self.bias else [])

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.norm import norm_weight_gradient
        return norm_weight_gradient(self, inputs, outputs, profile)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
               weight_offset: float = 0.0) -> Tensor:
    """LayerNorm over the last axis of x [..., D]; the scale is weight_offset + weight [D] (Nemotron: offset 1), bias [D]."""
    op = Norm("layer", eps, weight is not None, bias is not None, weight_offset)
    return apply(op, x, *[t for t in (weight, bias) if t is not None])[0]


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, weight_offset: float = 0.0) -> Tensor:
    """RMSNorm over the last axis of x [..., D]; the scale is weight_offset + weight [D] (Gemma: offset 1)."""
    op = Norm("rms", eps, weight is not None, False, weight_offset)
    return apply(op, x, *[t for t in (weight,) if t is not None])[0]
