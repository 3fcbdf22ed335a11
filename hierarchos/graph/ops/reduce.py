"""Sums and maxima over axes."""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hierarchos.graph.op import Op, ShapeError, apply
from hierarchos.graph.ops import pointwise as p
from hierarchos.graph.tensor import Spec, Tensor


@dataclass(frozen=True)
class Reduce(Op):
    """kind "sum" or "max" over `axes` (sorted, not negative); the order of the additions is fixed."""

    kind: str
    axes: tuple[int, ...]
    keepdims: bool = False
    strided_inputs = "all"

    def infer(self, inputs):
        shape = inputs[0].shape
        if any(a >= len(shape) for a in self.axes):
            raise ShapeError(f"{self.kind}: axes {list(self.axes)} of a tensor of rank {len(shape)} (shape {list(shape)})")
        if self.kind == "max" and any(shape[a] == 0 for a in self.axes):
            raise ShapeError(f"max: axes {list(self.axes)} of shape {list(shape)} hold nothing")
        kept = tuple(1 if i in self.axes else n for i, n in enumerate(shape))
        return [Spec(kept if self.keepdims else tuple(n for i, n in enumerate(shape) if i not in self.axes), inputs[0].dtype)]

    def vjp(self, node, gradients):
        from hierarchos.graph.functions import expand, reshape
        (x,), g = node.inputs, gradients[0]
        if g is None or x.dtype != "f32":
            return [None]
        kept = tuple(1 if i in self.axes else n for i, n in enumerate(x.shape))
        g = reshape(g, kept)
        if self.kind == "sum":
            return [expand(g, x.shape)]
        hit = p.where(p.eq(x, reshape(node.outputs[0], kept)), 1.0, 0.0)        # ties share the gradient, as in PyTorch's amax
        return [p.mul(hit, p.div(g, sum(hit, self.axes, keepdims=True)))]

    def reference(self, inputs):
        function = np.sum if self.kind == "sum" else np.max
        return [np.asarray(function(inputs[0], axis=self.axes, keepdims=self.keepdims), inputs[0].dtype)]

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.reduce import reduce
        return reduce(self.kind, self.axes, inputs[0], outputs[0], profile)


def _axes(x: Tensor, axes) -> tuple[int, ...]:
    """Sorted axes from None (all), one axis or several, negative ones counted from the end."""
    axes = range(x.rank) if axes is None else (axes,) if isinstance(axes, int) else axes
    return tuple(sorted({a + x.rank if a < 0 else a for a in axes}))


def sum(x: Tensor, axes=None, keepdims: bool = False) -> Tensor:
    """Sum over axes (None: all)."""
    return apply(Reduce("sum", _axes(x, axes), keepdims), x)[0]


def max(x: Tensor, axes=None, keepdims: bool = False) -> Tensor:
    """Largest value over axes (None: all); ties share the gradient evenly."""
    return apply(Reduce("max", _axes(x, axes), keepdims), x)[0]


def mean(x: Tensor, axes=None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over axes (None: all)."""
    return p.div(sum(x, axes, keepdims), float(math.prod(x.shape[a] for a in _axes(x, axes))))
