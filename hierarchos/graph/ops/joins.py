"""Copies into a larger tensor: concat and pad."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Op, ShapeError, apply
from hierarchos.graph.ops.leaf import word_of
from hierarchos.graph.ops.views import axis_of, slice_axis, split
from hierarchos.graph.tensor import Spec, Tensor
from hierarchos.kernels import copy
from hierarchos.kernels.launch import Clear, In, Lowering, Out


@dataclass(frozen=True)
class Concat(Op):
    """Joins tensors along an axis."""

    axis: int
    strided_inputs = "all"

    def infer(self, inputs):
        def rest(spec):
            return spec.dtype, spec.shape[:self.axis], spec.shape[self.axis + 1:]
        first = inputs[0]
        if not 0 <= self.axis < len(first.shape) or any(rest(spec) != rest(first) for spec in inputs):
            raise ShapeError(f"concat: {[list(spec.shape) for spec in inputs]} differ beside axis {self.axis}")
        shape = list(first.shape)
        shape[self.axis] = sum(spec.shape[self.axis] for spec in inputs)
        return [Spec(tuple(shape), first.dtype)]

    def vjp(self, node, gradients):
        return list(split(gradients[0], [t.shape[self.axis] for t in node.inputs], self.axis))

    def reference(self, inputs):
        import numpy as np
        return [np.concatenate(inputs, self.axis)]

    def lower(self, inputs, outputs, profile):
        target, launches, start = outputs[0].strides, (), 0
        for index, x in enumerate(inputs):
            out = Out(0, 4 * start * target[self.axis])
            launches += copy.strided_copy(In(index), out, x.shape, x.strides, target, profile, "concat")
            start += x.shape[self.axis]
        return Lowering(launches)


@dataclass(frozen=True)
class Pad(Op):
    """Adds `before` and `after` elements of `value` along an axis."""

    axis: int
    before: int
    after: int
    value: float | int = 0
    strided_inputs = "all"

    def infer(self, inputs):
        shape = list(inputs[0].shape)
        if not 0 <= self.axis < len(shape) or min(self.before, self.after) < 0:
            raise ShapeError(f"pad: cannot add {self.before} and {self.after} along axis {self.axis} of {shape}")
        shape[self.axis] += self.before + self.after
        return [Spec(tuple(shape), inputs[0].dtype)]

    def vjp(self, node, gradients):
        extent = node.inputs[0].shape[self.axis]
        return [slice_axis(gradients[0], self.axis, self.before, self.before + extent)]

    def reference(self, inputs):
        import numpy as np
        widths = [(0, 0)] * inputs[0].ndim
        widths[self.axis] = (self.before, self.after)
        return [np.pad(inputs[0], widths, constant_values=self.value)]

    def lower(self, inputs, outputs, profile):
        x, out = inputs[0], outputs[0]
        target = Out(0, 4 * self.before * out.strides[self.axis])
        return Lowering((Clear(Out(0), out.size * 4, word_of(self.value, out.dtype)),
                         *copy.strided_copy(In(0), target, x.shape, x.strides, out.strides, profile, "pad")))


def concat(xs, axis: int = -1) -> Tensor:
    """Joins tensors along an axis."""
    xs = tuple(xs)
    return xs[0] if len(xs) == 1 else apply(Concat(axis_of(axis, xs[0].rank)), *xs)[0]


def pad(x: Tensor, axis: int, before: int, after: int, value: float | int = 0) -> Tensor:
    """Adds elements of `value` on both sides of an axis."""
    return x if before == after == 0 else apply(Pad(axis_of(axis, x.rank), before, after, value), x)[0]
