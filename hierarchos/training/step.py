"""One optimizer step: programs compiled once for each batch shape, then replayed."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.graph.program import Program, compile_program
from hierarchos.kernels.optimizer import ADAMW_HEAD, SGD_HEAD, adamw_scalars, sgd_scalars
from hierarchos.training.graphs import gradient_graph, loss_graph, update_graph
from hierarchos.training.settings import TrainSettings
from hierarchos.training.state import TrainingState

if TYPE_CHECKING:
    import numpy as np

GROUPS = 2                                          # with weight decay, without


@dataclass(frozen=True)
class StepResult:
    """Loss (mean over the trained tokens of the step), norm of the unclipped gradient, trained tokens."""

    loss: float
    gradient_norm: float
    tokens: float


class TrainStep:
    """Runs steps over a `TrainingState`. Batches are dicts of arrays as `hierarchos.data` makes them."""

    def __init__(self, state: TrainingState, settings: TrainSettings, seed: int = 0, profile: bool = False):
        self.state, self.settings, self.seed, self.profile = state, settings, seed, profile
        self.programs: dict[tuple, Program] = {}
        momentum = settings.optimizer.momentum > 0
        head = ADAMW_HEAD if settings.optimizer.name == "adamw" else SGD_HEAD
        graph = update_graph(state.floats, settings.optimizer.name, head + 2 * GROUPS, settings.max_grad_norm, momentum)
        self.update = self.compile(graph, "update")

    def compile(self, graph, label: str) -> Program:
        return compile_program(graph, self.state.device, self.state.store, profile=self.profile, label=label)

    def gradient_program(self, rows: int, length: int, accumulate: bool) -> Program:
        """The program of one batch shape, compiled at its first use."""
        key = ("gradient", rows, length, accumulate)
        if key not in self.programs:
            graph = gradient_graph(self.state.model, rows, length, self.settings.dropout, self.settings.recompute, accumulate)
            self.programs[key] = self.compile(graph, "gradient")
        return self.programs[key]

    def loss_program(self, rows: int, length: int) -> Program:
        """The validation program of one batch shape, compiled at its first use."""
        key = ("loss", rows, length)
        if key not in self.programs:
            self.programs[key] = self.compile(loss_graph(self.state.model, rows, length), "validation")
        return self.programs[key]

    def run(self, batches: Sequence[dict], step: int, rate: float) -> StepResult:
        """Step `step` (0-based) over `batches` with learning rate `rate`."""
        import numpy as np

        tokens = float(sum(trained_tokens(batch) for batch in batches))
        losses = [self.run_batch(batch, tokens, step, index) for index, batch in enumerate(batches)]
        norm = self.update.run({"scalars": self.scalars(step, rate)})["square_norm"]
        return StepResult(float(np.sum(losses)), float(np.sqrt(norm[0])), tokens)

    def run_batch(self, batch: dict, tokens: float, step: int, index: int) -> float:
        """Gradients of one batch, its token weights divided by the `tokens` of the whole step; returns its share of the loss."""
        program = self.gradient_program(*batch["ids"].shape, accumulate=index > 0)
        feeds = model_feeds(batch, tokens)
        if "seed" in program.inputs:
            feeds["seed"] = dropout_seed(self.seed, step, index)
        return float(program.run(feeds)["loss"])

    def scalars(self, step: int, rate: float) -> np.ndarray:
        """Numbers of this step for the update kernel: for tensors with and without weight decay."""
        optimizer = self.settings.optimizer
        groups = [(rate, optimizer.weight_decay), (rate, 0.0)]
        if optimizer.name == "adamw":
            return adamw_scalars(step + 1, groups, (optimizer.beta1, optimizer.beta2), optimizer.eps)
        return sgd_scalars(groups, optimizer.momentum)

    def evaluate(self, batches) -> float:
        """Mean loss of a trained token over `batches`."""
        total = weight = 0.0
        for batch in batches:
            program = self.loss_program(*batch["ids"].shape)
            total += float(program.run(model_feeds(batch, 1.0))["loss"])
            weight += float(trained_tokens(batch))
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
