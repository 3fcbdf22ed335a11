"""A product of a few rows with what stands before it folded in: norm or gate, product, bias, residual, activation in one op.

Only the decoding pass (`graph/decoding.py`) makes these; they have no derivative.
"""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Op, ShapeError
from hierarchos.graph.tensor import Spec


@dataclass(frozen=True)
class Gemv(Op):
    """Inputs in the order of `names`: x [...,K], second (gated), norm_weight [K], norm_bias [K], weight [N,K], bias [N], residual [...,N].

    prologue: "none", "rms", "layer" (eps, offset as in Norm) or "gated" (gate: the activation of x, times second).
    half: 0 float weights; 1 half, 2 bfloat16, both as u32 [N,K/2] of pairs."""

    prologue: str = "none"
    eps: float = 0.0
    offset: float = 0.0
    norm_weight: bool = False
    norm_bias: bool = False
    gate: str = "none"
    has_bias: bool = False
    has_residual: bool = False
    activation: str = "none"
    scale: float = 1.0
    half: int = 0

    strided_inputs = "all"

    @property
    def names(self) -> tuple[str, ...]:
        there = {
            "second": self.prologue == "gated",
            "norm_weight": self.norm_weight,
            "norm_bias": self.norm_bias,
            "weight": True,
            "bias": self.has_bias,
            "residual": self.has_residual,
        }
        return ("x", *(name for name, found in there.items() if found))

    def named(self, inputs: list) -> dict:
        return dict(zip(self.names, inputs, strict=True))

    def infer(self, inputs):
        named = self.named(inputs)
        x, weight = named["x"].shape, named["weight"].shape
        if len(weight) != 2 or weight[1] * (2 if self.half else 1) != x[-1]:
            raise ShapeError(f"gemv: x {list(x)} and weight {list(weight)} do not fit")
        return [Spec((*x[:-1], weight[0]))]

    def reference(self, inputs):
        from hierarchos.kernels.gemv import gemv_reference

        return gemv_reference(self, inputs)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.gemv import lower_gemv

        return lower_gemv(self, inputs, outputs[0], profile)
