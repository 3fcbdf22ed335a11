"""Weights that lie in a narrow format, as floats for the products that follow."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Op, ShapeError, apply
from hierarchos.graph.tensor import Spec, Tensor
from hierarchos.kernels.packed import pack, unpacked, words_of

__all__ = ["Unpack", "pack", "unpack", "words_of"]


@dataclass(frozen=True)
class Unpack(Op):
    """Input u32 [words], output f32 of `shape`. Packed weights are frozen: there is no derivative.

    The floats are as large as the format saves, so whoever reads them should do so in a region of recomputation: the backward pass then
    unpacks again instead of keeping them."""

    form: str
    shape: tuple[int, ...]

    def infer(self, inputs):
        found, wanted = Spec(self.shape), Spec((words_of(Spec(self.shape).size, self.form),), "u32")
        if inputs[0] != wanted:
            raise ShapeError(f"unpack: {self.form} {list(self.shape)} lies in u32 {list(wanted.shape)}; got {inputs[0]}")
        return [found]

    def vjp(self, node, gradients):
        return [None]

    def reference(self, inputs):
        return [unpacked(inputs[0], self.form, Spec(self.shape).size).reshape(self.shape)]

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.packed import unpack as lower
        return lower(self.form, inputs, outputs, profile)


def unpack(words: Tensor, form: str, shape: tuple[int, ...]) -> Tensor:
    """Floats of `shape` from packed words."""
    return apply(Unpack(form, tuple(shape)), words)[0]
