"""Larger tensors from smaller ones: concat and pad, and parts that are written where they belong."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Alias, Op, ShapeError, apply
from hierarchos.graph.ops.leaf import Leaf, word_of
from hierarchos.graph.ops.views import axis_of, slice_axis, split
from hierarchos.graph.tensor import NUMPY_NAME, Spec, Tensor
from hierarchos.kernels import copy
from hierarchos.kernels.launch import Clear, In, Launch, Lowering, Operand, Out, Profile, item_bytes


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
        return Lowering(copy_parts(self.axis, inputs, [True] * len(inputs), outputs[0], profile))


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


@dataclass(frozen=True)
class Memory(Leaf):
    """Memory that nothing has been written to: what `Within` writes into and `Joined` gives away."""

    spec: Spec

    def infer(self, inputs):
        return [self.spec]

    def reference(self, inputs):
        import numpy as np
        return [np.full(self.spec.shape, np.nan if self.spec.dtype == "f32" else 0, NUMPY_NAME[self.spec.dtype])]

    def lower(self, inputs, outputs, profile):
        return Lowering(())


@dataclass(frozen=True)
class Within(Op):
    """`op` with outputs that lie in a memory given as one more, last input: (slot, offset, strides) in elements for each."""

    op: Op
    places: tuple[tuple[int, int, tuple[int, ...]], ...]

    @property
    def strided_inputs(self):
        return self.op.strided_inputs

    def infer(self, inputs):
        return self.op.infer(inputs[:-1])

    def reference(self, inputs):
        return self.op.reference(inputs[:-1])

    def lower(self, inputs, outputs, profile):
        return self.op.lower(inputs[:-1], outputs, profile)

    def alias(self, slot, inputs):
        found = {at: Alias(len(inputs) - 1, offset, strides, mutates=True) for at, offset, strides in self.places}
        return found.get(slot) or self.op.alias(slot, inputs[:-1])


@dataclass(frozen=True)
class Joined(Op):
    """Inputs: a memory, then the parts of a concat along `axis`; those marked in `within` lie there already, the others are copied."""

    axis: int
    within: tuple[bool, ...]
    strided_inputs = "all"

    def infer(self, inputs):
        return Concat(self.axis).infer(inputs[1:])

    def reference(self, inputs):
        return Concat(self.axis).reference(inputs[1:])

    def lower(self, inputs, outputs, profile):
        return Lowering(copy_parts(self.axis, inputs[1:], [not there for there in self.within], outputs[0], profile, first=1))

    def alias(self, slot, inputs):
        return Alias(0, mutates=True)


def copy_parts(axis: int, parts: list[Operand], copied: list[bool], output: Operand, profile: Profile,
               first: int = 0) -> tuple[Launch, ...]:
    """Launches that copy the marked parts to their places along `axis`; part i is the node's input first + i."""
    launches, start = (), 0
    for index, (part, wanted) in enumerate(zip(parts, copied, strict=True)):
        if wanted:
            out = Out(0, item_bytes(output.dtype) * start * output.strides[axis])
            launches += copy.strided_copy(In(first + index), out, part.shape, part.strides, output.strides, profile, "concat", part.dtype)
        start += part.shape[axis]
    return launches


def concat(xs, axis: int = -1) -> Tensor:
    """Joins tensors along an axis."""
    xs = tuple(xs)
    return xs[0] if len(xs) == 1 else apply(Concat(axis_of(axis, xs[0].rank)), *xs)[0]


def pad(x: Tensor, axis: int, before: int, after: int, value: float | int = 0) -> Tensor:
    """Adds elements of `value` on both sides of an axis."""
    return x if before == after == 0 else apply(Pad(axis_of(axis, x.rank), before, after, value), x)[0]
