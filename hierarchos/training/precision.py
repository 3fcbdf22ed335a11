"""In which format a run computes, and the loss scale that fp16 needs, kept and changed on the device.

fp16 holds nothing below 6e-8, so small gradients would vanish: the loss is multiplied by S before differentiation, and gradients
are divided by it again before the optimizer uses them. Where they overflow the step is skipped and S halved; after
`loss_scale_steps` good steps S doubles. S is a power of two unless a person chose another one, so scaling rounds nothing in fp32.
"""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Spec, Tensor

SCALING = "loss_scaling"                            # arena of the two states below
LOSS_SCALE, GOOD_STEPS = "loss_scale", "good_steps"             # f32 [1]: S, and steps since it last changed or overflowed
LARGEST_SCALE, SMALLEST_SCALE = 2.0**24, 1.0
LARGEST = 3.4028234663852886e38


@dataclass(frozen=True)
class Precision:
    """compute: "fp32", "bf16" or "fp16"; loss_scale: the first S; loss_scale_steps: good steps after which it doubles."""

    compute: str = "fp32"
    loss_scale: float = 65536.0
    loss_scale_steps: int = 2000

    @classmethod
    def of(cls, settings) -> Precision:
        """From a group of settings that has these fields."""
        return cls(settings.compute, settings.loss_scale, settings.loss_scale_steps)

    @property
    def scaled(self) -> bool:
        return self.compute == "fp16"

    @property
    def states(self) -> dict[str, Spec]:
        """What a run keeps beside its parameters, by name; also in checkpoints."""
        return {LOSS_SCALE: Spec((1,)), GOOD_STEPS: Spec((1,))} if self.scaled else {}


FP32 = Precision()


def loss_scale() -> Tensor:
    """S [1] as it is before the step ends."""
    return F.state(LOSS_SCALE, (1,))


def next_scale(scale: Tensor, square_norm: Tensor, steps: int) -> None:
    """Changes S after a step whose scaled gradients have this square norm [1]."""
    good_steps = F.state(GOOD_STEPS, (1,))
    finite, count = F.le(square_norm, LARGEST), good_steps + 1.0
    grows = F.ge(count, float(steps))
    larger = F.where(grows, F.minimum(scale * 2.0, LARGEST_SCALE), scale)
    F.assign(F.state(LOSS_SCALE, (1,)), F.where(finite, larger, F.maximum(scale * 0.5, SMALLEST_SCALE)))
    F.assign(F.state(GOOD_STEPS, (1,)), F.where(finite, F.where(grows, 0.0, count), 0.0))
