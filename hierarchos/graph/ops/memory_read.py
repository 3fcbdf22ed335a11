"""Retrieval from a slot memory with a straight-through gradient of the scores; formulas: kernels/memory_read.py."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Op, ShapeError, apply
from hierarchos.graph.tensor import Spec, Tensor
from hierarchos.kernels.memory_read import memory_read_gradient_reference, memory_read_reference


@dataclass(frozen=True)
class MemoryRead(Op):
    """Inputs scores [B,S], values [S,V], fast [S,V] or [B,S,V]; outputs index i32 [B,K], value [B,K,V].

    The values are read as constants: their gradient is collected from index and the gradient of value (an embedding's)."""

    count: int
    gradient_scale: float = 1.0

    def infer(self, inputs):
        (batch, slots), values, fast = inputs[0].shape, inputs[1].shape, inputs[2].shape
        if values[0] != slots or fast not in (values, (batch, *values)) or self.count > slots:
            raise ShapeError(f"memory_read: {self.count} of scores {[batch, slots]}, values {list(values)}, fast {list(fast)} do not fit")
        return [Spec((batch, self.count), "i32"), Spec((batch, self.count, values[1]))]

    def vjp(self, node, gradients):
        if gradients[1] is None:
            return [None, None, None]
        op = MemoryReadGradient(node.inputs[0].shape[1], self.gradient_scale)
        return [apply(op, *node.outputs, gradients[1])[0], None, None]

    def reference(self, inputs):
        return memory_read_reference(self.count, *inputs)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.memory_read import memory_read
        return memory_read(self.count, inputs, outputs, profile)


@dataclass(frozen=True)
class MemoryReadGradient(Op):
    """Inputs index, value, dvalue; output dscore [B,S]."""

    slots: int
    scale: float

    def infer(self, inputs):
        return [Spec((inputs[0].shape[0], self.slots))]

    def reference(self, inputs):
        return [memory_read_gradient_reference(self.scale, self.slots, *inputs)]

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.memory_read import memory_read_gradient
        return memory_read_gradient(self.scale, inputs, outputs, profile)


def memory_read(scores: Tensor, values: Tensor, fast: Tensor, count: int, gradient_scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """(index i32 [B,K], value [B,K,V]) of the `count` best finite scores."""
    return apply(MemoryRead(count, gradient_scale), scores, values, fast)
