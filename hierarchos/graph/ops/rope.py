"""Rotary position embedding: rotates pairs of channels by angles from a table."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.graph.op import Alias, Op, ShapeError, apply
from hierarchos.graph.tensor import Node, Spec, Tensor

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.kernels.launch import Lowering, Operand, Profile

LAYOUTS = ("half", "interleaved")


@dataclass(frozen=True)
class Rope(Op):
    """x [B,T,H,D], cos [P,R/2], sin [P,R/2], positions i32 [B,T] -> x with its first R channels rotated.

    layout "half" pairs channel c with c + R/2 (Llama), "interleaved" 2c with 2c + 1 (GPT-J). inverse: rotates back.
    in_place: the output is the memory of x."""

    layout: str = "half"
    inverse: bool = False
    in_place: bool = False
    strided_inputs = (0,)
    strided_outputs = "all"

    def infer(self, inputs: list[Spec]) -> list[Spec]:
        x, cos, sin, positions = (s.shape for s in inputs)
        if self.layout not in LAYOUTS:
            raise ShapeError(f"rope: layout {self.layout!r} is not one of {', '.join(LAYOUTS)}")
        if len(x) != 4 or len(cos) != 2 or cos != sin or positions != x[:2] or 2 * cos[1] > x[3]:
            raise ShapeError(f"rope: x {list(x)}, cos {list(cos)}, sin {list(sin)}, positions {list(positions)} do not fit "
                             "(x [B,T,H,D], cos and sin [P,R/2] with R <= D, positions [B,T])")
        if [s.dtype for s in inputs] != ["f32", "f32", "f32", "i32"]:
            raise ShapeError(f"rope: dtypes {[s.dtype for s in inputs]} are not f32, f32, f32, i32")
        return [Spec(x)]

    def vjp(self, node: Node, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """The tables are constants: they get no gradient."""
        if gradients[0] is None:
            return [None] * 4
        assert not self.in_place, "ropes are put in place after differentiation"
        return [apply(Rope(self.layout, not self.inverse), gradients[0], *node.inputs[1:])[0], None, None, None]

    def reference(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        from hierarchos.kernels.rope import rope_reference

        return [rope_reference(*inputs, layout=self.layout, inverse=self.inverse)]

    def lower(self, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
        from hierarchos.kernels.rope import rope

        return rope(self.layout, self.inverse, inputs, outputs, profile)

    def alias(self, slot: int, inputs: list[Operand]) -> Alias | None:
        return Alias(0, mutates=True) if self.in_place else None


def rope(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, layout: str = "half") -> Tensor:
    """Rotates the first R channels of x [B,T,H,D] by the angles of cos and sin [P,R/2] at positions i32 [B,T].

    A position outside [0, P) is clamped to it. Raises ShapeError."""
    return apply(Rope(layout), x, cos, sin, positions)[0]
