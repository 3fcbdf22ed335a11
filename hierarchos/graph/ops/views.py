"""Views that share memory: reshape, transpose, expand, split and slice; and the copy that makes one contiguous."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hierarchos.graph.op import Alias, Op, ShapeError, apply
from hierarchos.graph.ops.leaf import full
from hierarchos.graph.tensor import Spec, Tensor
from hierarchos.kernels import copy
from hierarchos.kernels.launch import In, Lowering, Out, row_major


class View(Op):
    """An op that only changes how memory is read; where it cannot be a view it copies."""

    strided_inputs = "all"

    def lower(self, inputs, outputs, profile):
        x = inputs[0]
        assert self.alias(0, inputs) is None
        return Lowering(copy.strided_copy(In(0), Out(0), x.shape, x.strides, row_major(x.shape), profile, "contiguous", x.dtype))


def reshaped_strides(shape, strides, target) -> tuple[int, ...] | None:
    """Strides that read a strided tensor as shape `target` without a copy, or None when there are none."""
    axes = copy.coalesce(shape, strides, strides)   # outer first; each (extent, stride, stride) is one run
    result, at, left = [], len(axes) - 1, axes[-1][0]
    step = axes[-1][1]
    for extent in reversed(target):
        if extent == 1:
            result.append(step)
            continue
        if left == 1 and at > 0:
            at -= 1
            left, step = axes[at][0], axes[at][1]
        if left % extent:
            return None
        result.append(step)
        left, step = left // extent, step * extent
    return tuple(reversed(result))


@dataclass(frozen=True)
class Reshape(View):
    """The same elements in row-major order under another shape."""

    shape: tuple[int, ...]

    def infer(self, inputs):
        if prod(self.shape) != inputs[0].size:
            raise ShapeError(f"reshape: {list(inputs[0].shape)} has {inputs[0].size} elements, {list(self.shape)} has {prod(self.shape)}")
        return [Spec(self.shape, inputs[0].dtype)]

    def vjp(self, node, gradients):
        return [reshape(gradients[0], node.inputs[0].shape)]

    def reference(self, inputs):
        return [inputs[0].reshape(self.shape)]

    def alias(self, slot, inputs):
        x = inputs[0]
        strides = row_major(self.shape) if x.contiguous else reshaped_strides(x.shape, x.strides, self.shape)
        return None if strides is None else Alias(0, 0, strides)


@dataclass(frozen=True)
class Transpose(View):
    """Permutes axes: output axis k is input axis axes[k]."""

    axes: tuple[int, ...]

    def infer(self, inputs):
        shape = inputs[0].shape
        if sorted(self.axes) != list(range(len(shape))):
            raise ShapeError(f"transpose: axes {list(self.axes)} do not permute the {len(shape)} axes of {list(shape)}")
        return [Spec(tuple(shape[a] for a in self.axes), inputs[0].dtype)]

    def vjp(self, node, gradients):
        inverse = tuple(self.axes.index(a) for a in range(len(self.axes)))
        return [transpose(gradients[0], inverse)]

    def reference(self, inputs):
        return [inputs[0].transpose(self.axes)]

    def alias(self, slot, inputs):
        return Alias(0, 0, tuple(inputs[0].strides[a] for a in self.axes))


@dataclass(frozen=True)
class Expand(View):
    """Repeats axes of extent 1 (and adds leading ones) up to `shape`, as NumPy broadcasting does."""

    shape: tuple[int, ...]

    def infer(self, inputs):
        shape = inputs[0].shape
        padded = (1,) * (len(self.shape) - len(shape)) + shape
        if len(shape) > len(self.shape) or any(a not in (1, b) for a, b in zip(padded, self.shape, strict=True)):
            raise ShapeError(f"expand: {list(shape)} cannot be repeated to {list(self.shape)}")
        return [Spec(self.shape, inputs[0].dtype)]

    def vjp(self, node, gradients):
        from hierarchos.graph.ops.reduce import sum
        shape = node.inputs[0].shape
        padded = (1,) * (len(self.shape) - len(shape)) + shape
        axes = tuple(k for k, (a, b) in enumerate(zip(padded, self.shape, strict=True)) if a != b)
        return [reshape(sum(gradients[0], axes, True) if axes else gradients[0], shape)]

    def reference(self, inputs):
        import numpy as np
        return [np.broadcast_to(inputs[0], self.shape)]

    def alias(self, slot, inputs):
        x = inputs[0]
        lead = len(self.shape) - len(x.shape)
        kept = tuple(0 if a == 1 and b != 1 else s for a, s, b in zip(x.shape, x.strides, self.shape[lead:], strict=True))
        return Alias(0, 0, (0,) * lead + kept)


@dataclass(frozen=True)
class Split(View):
    """Consecutive parts of the given sizes along an axis; one output for each. A slice is a split with unread parts."""

    axis: int
    sizes: tuple[int, ...]

    def infer(self, inputs):
        shape, dtype = inputs[0].shape, inputs[0].dtype
        if not 0 <= self.axis < len(shape) or sum(self.sizes) != shape[self.axis] or min(self.sizes) < 1:
            raise ShapeError(f"split: parts {list(self.sizes)} do not make up axis {self.axis} of {list(shape)}")
        return [Spec((*shape[:self.axis], size, *shape[self.axis + 1:]), dtype) for size in self.sizes]

    def vjp(self, node, gradients):
        from hierarchos.graph.ops.joins import concat
        parts = [full(spec.shape, 0) if g is None else g for g, spec in zip(gradients, node.specs, strict=True)]
        return [concat(parts, self.axis)]

    def reference(self, inputs):
        import numpy as np
        return np.split(inputs[0], np.cumsum(self.sizes)[:-1].tolist(), self.axis)

    def alias(self, slot, inputs):
        return Alias(0, sum(self.sizes[:slot]) * inputs[0].strides[self.axis], inputs[0].strides)


@dataclass(frozen=True)
class Contiguous(View):
    """A row-major copy of a strided view; the tensor itself when it is row-major already."""

    def infer(self, inputs):
        return [inputs[0]]

    def vjp(self, node, gradients):
        return [gradients[0]]

    def reference(self, inputs):
        return [inputs[0].copy()]

    def alias(self, slot, inputs):
        return Alias(0) if inputs[0].contiguous else None


def axis_of(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def reshape(x: Tensor, shape) -> Tensor:
    """The same elements under another shape; one extent may be -1."""
    shape = tuple(shape)
    if -1 in shape:
        rest = -prod(shape)
        shape = tuple(x.spec.size // max(rest, 1) if d == -1 else d for d in shape)
    return x if shape == x.shape else apply(Reshape(shape), x)[0]


def transpose(x: Tensor, axes=None) -> Tensor:
    """Permutes the axes; without `axes`, swaps the last two."""
    axes = (*range(x.rank - 2), x.rank - 1, x.rank - 2) if axes is None else tuple(axis_of(a, x.rank) for a in axes)
    return x if axes == tuple(range(x.rank)) else apply(Transpose(axes), x)[0]


def expand(x: Tensor, shape) -> Tensor:
    """Repeats axes of extent 1 up to `shape`."""
    return x if tuple(shape) == x.shape else apply(Expand(tuple(shape)), x)[0]


def split(x: Tensor, sizes, axis: int = -1) -> tuple[Tensor, ...]:
    """Parts of the given sizes along an axis, as views."""
    return (x,) if len(sizes) == 1 and sizes[0] == x.shape[axis] else apply(Split(axis_of(axis, x.rank), tuple(sizes)), x)


def slice_axis(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """Elements start..stop-1 along an axis, as a view; negative positions count from the end."""
    axis = axis_of(axis, x.rank)
    extent = x.shape[axis]
    start, stop = (p + extent if p < 0 else min(p, extent) for p in (start, stop))
    if not 0 <= start < stop:
        raise ShapeError(f"slice: {start}:{stop} is empty or outside axis {axis} of {list(x.shape)}")
    sizes = [size for size in (start, stop - start, extent - stop) if size]
    return split(x, sizes, axis)[1 if start else 0]


def contiguous(x: Tensor) -> Tensor:
    """A row-major copy where `x` is a strided view."""
    return apply(Contiguous(), x)[0]
