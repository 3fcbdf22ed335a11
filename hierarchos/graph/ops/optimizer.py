"""Optimizer steps over whole arenas: one dispatch over N floats, whatever the number of parameters.

An arena is a flat f32 tensor; parameters start at multiples of BLOCK floats, and `groups` u32 [N / BLOCK] says for each block which
hyper-parameter group it belongs to. Numbers that change from step to step lie in `scalars`, computed on the host in float64 by
`adamw_scalars` and `sgd_scalars`. `gradient_scale` f32 [1] multiplies every gradient (clipping, 1 / tokens); when it is not
finite, the step is skipped and nothing changes.
"""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Alias, Op, ShapeError, apply
from hierarchos.graph.ops import pointwise as p
from hierarchos.graph.tensor import Spec, Tensor
from hierarchos.kernels.optimizer import BLOCK, adamw_reference, adamw_scalars, sgd_reference, sgd_scalars, sum_of_squares_reference

__all__ = ["BLOCK", "adamw", "adamw_scalars", "clip_scale", "sgd", "sgd_scalars", "sum_of_squares"]
STATES = ("parameters", "first moments", "second moments", "carry")
LARGEST = 3.4028234663852886e38


class _Step(Op):
    """Shared by the optimizers: `states` arenas updated in place, then gradients, groups, scalars, gradient_scale."""

    effect = True

    def infer(self, inputs):
        (n,) = inputs[0].shape
        arenas = {name: spec for name, spec in zip((*STATES[: self.states], "gradients"), inputs, strict=False) if name != "carry"}
        for name, spec in arenas.items():
            if spec.shape != (n,) or spec.dtype != "f32":
                raise ShapeError(f"{type(self).__name__}: {name} are {spec.dtype} {list(spec.shape)}, parameters f32 [{n}]")
        groups = inputs[self.states + 1]
        if n % BLOCK or groups.shape != (n // BLOCK,) or groups.dtype != "u32":
            raise ShapeError(f"{type(self).__name__}: an arena of {n} floats needs a length divisible by {BLOCK} and groups u32 "
                             f"[{n // BLOCK}], got {groups.dtype} {list(groups.shape)}")
        return list(inputs[: self.states])

    def alias(self, slot, inputs):
        return Alias(slot, mutates=True)


@dataclass(frozen=True)
class AdamW(_Step):
    """Inputs parameters, first moments, second moments [N], carry [C] with `carried`, gradients [N], groups, scalars, gradient_scale;
    outputs the states. carry: see `adamw`."""

    carried: bool = False

    @property
    def states(self) -> int:
        return 3 + self.carried

    def infer(self, inputs):
        if self.carried and (len(inputs[3].shape) != 1 or inputs[3].shape[0] % BLOCK or inputs[3].dtype != "f32"):
            raise ShapeError(f"AdamW: carry is f32 [C], C divisible by {BLOCK}, got {inputs[3].dtype} {list(inputs[3].shape)}")
        return super().infer(inputs)

    def reference(self, inputs):
        return adamw_reference(*inputs, carried=self.carried)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.optimizer import adamw as lower
        return lower(inputs, profile, self.carried)


@dataclass(frozen=True)
class SGD(_Step):
    """Inputs parameters, momentum [N]?, gradients [N], groups, scalars, gradient_scale; outputs parameters, momentum?."""

    momentum: bool = False
    nesterov: bool = False

    @property
    def states(self) -> int:
        return 1 + self.momentum

    def reference(self, inputs):
        return sgd_reference(*inputs, momentum=self.momentum, nesterov=self.nesterov)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.optimizer import sgd as lower
        return lower(inputs, self.momentum, self.nesterov, profile)


@dataclass(frozen=True)
class SumOfSquares(Op):
    """Input x [N]; output [1]: sum of x^2, in a fixed order."""

    def infer(self, inputs):
        return [Spec((1,))]

    def reference(self, inputs):
        return [sum_of_squares_reference(inputs[0])]

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.optimizer import sum_of_squares as lower
        return lower(inputs[0], profile)


def adamw(parameters: Tensor, gradients: Tensor, first_moments: Tensor, second_moments: Tensor, scalars: Tensor, groups: Tensor,
          gradient_scale: Tensor, carry: Tensor | None = None) -> tuple[Tensor, ...]:
    """AdamW with decoupled decay, as PyTorch defines it; updates and returns parameters, both moments and carry.

    scalars: `adamw_scalars(...)`; groups: u32 [N / BLOCK], index of each block's (learning rate, decay) in them, plus GROUP_CODES times
    (1 + the block of carry [C] that keeps what the rounding of its parameters leaves off, from step to step)."""
    states = (parameters, first_moments, second_moments, *(() if carry is None else (carry,)))
    return apply(AdamW(carry is not None), *states, gradients, groups, scalars, gradient_scale)


def sgd(parameters: Tensor, gradients: Tensor, scalars: Tensor, groups: Tensor, gradient_scale: Tensor, momentum: Tensor | None = None,
        nesterov: bool = False) -> tuple[Tensor, ...]:
    """SGD with decay added to the gradient, momentum and Nesterov's variant, as PyTorch defines them; updates in place."""
    states = (parameters,) if momentum is None else (parameters, momentum)
    return apply(SGD(momentum is not None, nesterov), *states, gradients, groups, scalars, gradient_scale)


def sum_of_squares(x: Tensor) -> Tensor:
    """Sum of x^2 over a flat tensor [N] -> [1], in a fixed order."""
    return apply(SumOfSquares(), x)[0]


def clip_scale(square_sum: Tensor, max_norm: float | Tensor) -> Tensor:
    """min(1, max_norm / (norm + 1e-6)) for `gradient_scale`; NaN, which skips the step, when the norm is not finite."""
    norm = p.sqrt(square_sum)
    factor = p.minimum(p.div(max_norm, p.add(norm, 1e-6)), 1.0)
    return p.where(p.le(norm, LARGEST), factor, float("nan"))
