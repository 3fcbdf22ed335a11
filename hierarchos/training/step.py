"""One optimizer step: programs compiled once for each batch shape, then replayed."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.graph.program import Program, compile_program
from hierarchos.graph.tensor import Graph
from hierarchos.kernels.optimizer import adamw_scalars, sgd_scalars
from hierarchos.training.graphs import gradient_graph, loss_graph, step_graph, update_graph
from hierarchos.training.groups import update_of
from hierarchos.training.precision import LOSS_SCALE
from hierarchos.training.settings import TrainSettings
from hierarchos.training.state import TrainingState

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class StepResult:
    """Loss (mean over the trained tokens of the step), norm of the unclipped gradient, trained tokens, loss scale where there is one."""

    loss: float
    gradient_norm: float
    tokens: float
    loss_scale: float | None = None


class TrainStep:
    """Runs steps over a `TrainingState`. Batches are dicts of arrays as `hierarchos.data` makes them."""

    def __init__(self, state: TrainingState, settings: TrainSettings, seed: int = 0, profile: bool = False):
        self.state, self.settings, self.seed, self.profile = state, settings, seed, profile
        self.options = {"dropout": settings.dropout, "recompute": settings.recompute, "precision": state.precision}
        self.update = update_of(state.store.layout, state.specs, settings, state.precision)
        self.skipped = 0                            # steps whose gradients overflowed: the optimizer does not count them
        self.programs: dict[tuple, Program] = {}

    def program(self, key: tuple, graph: Callable[[], Graph]) -> Program:
        """The program of `key` (its first word is its label), compiled at its first use."""
        if key not in self.programs:
            label = f"{key[0]} of {key[1]} x {key[2]} tokens" if len(key) > 2 else key[0]
            self.programs[key] = compile_program(graph(), self.state.device, self.state.store, profile=self.profile, label=label)
        return self.programs[key]

    def step_program(self, rows: int, length: int) -> Program:
        """Gradients and update of a step of one batch."""
        model = self.state.model
        return self.program(("step", rows, length), lambda: step_graph(model, rows, length, update=self.update, **self.options))

    def gradient_program(self, rows: int, length: int, accumulate: bool) -> Program:
        """Gradients of one batch, written or added."""
        model = self.state.model
        return self.program(("gradient", rows, length, accumulate),
                            lambda: gradient_graph(model, rows, length, accumulate=accumulate, **self.options))

    def loss_program(self, rows: int, length: int) -> Program:
        """The validation loss of one batch."""
        return self.program(("validation", rows, length), lambda: loss_graph(self.state.model, rows, length, self.state.precision))

    def run(self, batches: Sequence[dict], step: int, rate: float) -> StepResult:
        """Step `step` (0-based) over `batches` with learning rate `rate`."""
        tokens = sum(trained_tokens(batch) for batch in batches)
        scalars = {"scalars": self.scalars(step, rate)}
        if self.settings.accumulation == 1:
            program = self.step_program(*batches[0]["ids"].shape)
            results = program.run(self.feeds(program, batches[0], tokens, step, 0) | scalars)
            return self.result([results["loss"]], results, tokens)
        losses = []
        for index, batch in enumerate(batches):
            program = self.gradient_program(*batch["ids"].shape, accumulate=index > 0)
            losses.append(program.run(self.feeds(program, batch, tokens, step, index))["loss"])
        update = self.program(("update",), lambda: update_graph(self.update))
        return self.result(losses, update.run(scalars), tokens)

    @staticmethod
    def result(losses: list, update: dict[str, np.ndarray], tokens: float) -> StepResult:
        scale = float(update[LOSS_SCALE][0]) if LOSS_SCALE in update else None
        return StepResult(sum(float(loss) for loss in losses), float(update["square_norm"][0]) ** 0.5, tokens, scale)

    def feeds(self, program: Program, batch: dict, tokens: float, step: int, index: int) -> dict:
        """Inputs of one batch; token weights are divided by the `tokens` of the whole step."""
        feeds = model_feeds(batch, tokens)
        if "seed" in program.plan.declared:
            feeds["seed"] = dropout_seed(self.seed, step, index)
        return feeds

    def scalars(self, step: int, rate: float) -> np.ndarray:
        """Numbers of this step for the update kernel: learning rate and weight decay of each group."""
        optimizer = self.settings.optimizer
        groups = [(rate * group.rate, optimizer.weight_decay if group.decays else 0.0) for group in self.state.groups]
        if optimizer.name == "adamw":
            return adamw_scalars(step + 1 - self.skipped, groups, (optimizer.beta1, optimizer.beta2), optimizer.eps)
        return sgd_scalars(groups, optimizer.momentum)

    def evaluate(self, batches: Iterable[dict]) -> float:
        """Mean loss of a trained token over `batches`."""
        total = weight = 0.0
        for batch in batches:
            program = self.loss_program(*batch["ids"].shape)
            total += float(program.run(model_feeds(batch, 1.0))["loss"])
            weight += trained_tokens(batch)
        return total / (weight or 1.0)


def trained_tokens(batch: dict) -> float:
    """The sum of the token weights of a batch."""
    return float(batch["token_weights"].sum(dtype="float64"))


def model_feeds(batch: dict, tokens: float) -> dict:
    """Inputs of a gradient or loss program: token weights divided by `tokens`."""
    names = ("ids", "positions", "segments", "targets")
    return {name: batch[name] for name in names} | {"token_weights": batch["token_weights"] / (tokens or 1.0)}


def dropout_seed(seed: int, step: int, index: int) -> np.ndarray:
    """u32 [2]: a new stream of dropout for each batch, decided by the run's seed."""
    import numpy as np

    return np.array([seed & 0xFFFFFFFF, (step * 0x10001 + index) & 0xFFFFFFFF], np.uint32)
