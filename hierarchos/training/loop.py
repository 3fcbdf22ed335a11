"""The training loop: steps, validation, checkpoints and exact resume.

All that a step depends on is the settings, the seed and the step's number: batches are found by number, dropout by
(seed, step, batch). A checkpoint therefore holds tensors and counters only, and a resumed run repeats the unbroken one
bit for bit.
"""
from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hierarchos.training.checkpoint import STATE, Checkpoint, latest_checkpoint, prune, verify, write_checkpoint
from hierarchos.training.errors import NotFinite
from hierarchos.training.graphs import GRADIENTS, PARAMETERS
from hierarchos.training.metrics import MetricsFile
from hierarchos.training.precision import FP32, SMALLEST_SCALE, Precision
from hierarchos.training.schedule import learning_rate
from hierarchos.training.settings import TrainSettings, total_steps
from hierarchos.training.state import TrainingState
from hierarchos.training.step import StepResult, TrainStep

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.models.family import Model
    from hierarchos.vulkan import Device


class Batches(Protocol):
    """What the loop trains on: batches by number, for as long as it asks; its length is that of an epoch."""

    def __len__(self) -> int: ...
    def batch(self, number: int) -> dict: ...


class Observer(Protocol):
    """Is told what happens; a progress bar or a log."""

    def started(self, trainer: Trainer) -> None: ...
    def stepped(self, report: StepReport) -> None: ...
    def validated(self, step: int, loss: float, best: bool) -> None: ...
    def saved(self, checkpoint: Checkpoint) -> None: ...


@dataclass(frozen=True)
class StepReport:
    """One finished step. `step` counts finished steps: the first report says 1. seconds: duration of this step."""

    step: int
    steps: int
    loss: float
    gradient_norm: float
    learning_rate: float
    tokens: int
    seconds: float
    loss_scale: float | None = None                 # fp16 only, and the steps that it has skipped so far
    skipped: int | None = None


@dataclass
class Counters:
    """What a checkpoint holds beside tensors."""

    step: int = 0
    tokens: int = 0
    best_loss: float | None = None
    best_step: int | None = None
    validation_loss: float | None = None
    skipped: int = 0                                # steps whose gradients overflowed (fp16)


@dataclass(frozen=True)
class TrainResult:
    """How a run ended. `chosen`: the checkpoint to export (the best by validation when kept, else the last)."""

    steps: int
    loss: float | None
    validation_loss: float | None
    best_step: int | None
    best_loss: float | None
    tokens: int
    seconds: float
    chosen: Checkpoint


class Trainer:
    """Trains `model` on `train`, in `folder` (metrics.jsonl, checkpoints/), and tells `observer`."""

    def __init__(self, model: Model, settings: TrainSettings, train: Batches, validation: Sequence[dict], device: Device, folder: Path, *,
                 seed: int = 0, observer: Observer | None = None, profile: bool = False, fingerprint: str = "",
                 precision: Precision = FP32):
        self.model, self.settings, self.train_batches, self.validation = model, settings, train, validation
        self.folder, self.seed, self.observer, self.fingerprint = Path(folder), seed, observer, fingerprint
        self.steps = total_steps(settings, len(train))
        self.state = TrainingState(model, device, settings.optimizer, precision)
        self.step = TrainStep(self.state, settings, seed, profile)
        self.counters = Counters()
        self.last_loss: float | None = None

    state_name = STATE                              # of the file that holds a checkpoint's tensors

    @property
    def checkpoint_folder(self) -> Path:
        return self.folder / "checkpoints"

    def start(self, values: dict[str, np.ndarray]) -> None:
        """Begins from initial or pretrained parameters."""
        self.state.load(values)

    def resume(self) -> Checkpoint | None:
        """Continues from the newest complete checkpoint, and returns it; None when there is none."""
        found = latest_checkpoint(self.checkpoint_folder)
        if found:
            verify(found)
            self.state.restore(found.state_file)
            self.counters = Counters(**found.manifest["counters"])
            self.step.skipped = self.counters.skipped
        return found

    def run(self) -> TrainResult:
        """All remaining steps; raises NotFinite when a loss or gradient is not a number."""
        begun = time.perf_counter()
        metrics = MetricsFile(self.folder / "metrics.jsonl", keep_until=self.counters.step if self.counters.step else None)
        try:
            if self.observer:
                self.observer.started(self)
            for report in self.remaining_steps():
                known = {name: value for name, value in asdict(report).items() if value is not None and math.isfinite(value)}
                metrics.write(**known, tokens_per_second=round(report.tokens / report.seconds, 1))
                if self.observer:
                    self.observer.stepped(report)
                self.after_step(report.step, metrics)
        finally:
            metrics.close()
        return self.result(time.perf_counter() - begun)

    def remaining_steps(self) -> Iterator[StepReport]:
        """Runs one step after the other."""
        while self.counters.step < self.steps:
            number, begun = self.counters.step, time.perf_counter()
            rate = self.rate(number)
            outcome = self.step.run(self.step_batches(number), number, rate)
            self.require_finite(outcome, number + 1)
            scaled = outcome.loss_scale is not None
            self.counters.step += 1
            self.counters.tokens += round(outcome.tokens)
            self.last_loss = outcome.loss
            yield StepReport(number + 1, self.steps, outcome.loss, outcome.gradient_norm, rate, round(outcome.tokens),
                             time.perf_counter() - begun, outcome.loss_scale, self.counters.skipped if scaled else None)

    def rate(self, number: int) -> float:
        """Learning rate of step `number` (0-based)."""
        schedule = self.settings.schedule
        return learning_rate(number, self.steps, self.settings.learning_rate, schedule.name, schedule.warmup, schedule.floor)

    def step_batches(self, number: int) -> list[dict]:
        """The batches of optimizer step `number` (0-based). Where `epochs` decide, the last step ends with the last epoch."""
        size, settings = self.settings.accumulation, self.settings
        first, end = number * size, (number + 1) * size
        if settings.steps is None:
            end = max(first + 1, min(end, math.ceil(settings.epochs * len(self.train_batches))))
        return [self.train_batches.batch(index) for index in range(first, end)]

    def require_finite(self, outcome: StepResult, step: int) -> None:
        """Raises NotFinite, with the first bad tensor; the weights are still those of the step before.

        Gradients that overflow under a loss scale above its least only count as a skipped step: the scale has been halved."""
        if math.isfinite(outcome.loss) and math.isfinite(outcome.gradient_norm):
            return
        if math.isfinite(outcome.loss) and (outcome.loss_scale or 0.0) > SMALLEST_SCALE:
            self.counters.skipped += 1
            self.step.skipped = self.counters.skipped
            return
        weight, gradient = self.state.first_bad(PARAMETERS), self.state.first_bad(GRADIENTS)
        raise NotFinite(step, outcome.loss, outcome.gradient_norm, weight, gradient, latest_checkpoint(self.checkpoint_folder),
                        outcome.loss_scale is not None)

    def after_step(self, step: int, metrics: MetricsFile) -> None:
        """Validation and checkpoint where they are due."""
        last = step == self.steps
        if self.validation and (last or due(step, self.settings.eval_every)):
            self.validate(step, metrics)
        if last or due(step, self.settings.checkpoint_every):
            self.save()

    def validate(self, step: int, metrics: MetricsFile) -> None:
        """Measures the validation loss; a new best one is saved when the best is kept."""
        begun = time.perf_counter()
        loss = self.step.evaluate(self.validation)
        best = self.counters.best_loss is None or loss < self.counters.best_loss
        self.counters.validation_loss = loss
        if best:
            self.counters.best_loss, self.counters.best_step = loss, step
        metrics.write(step=step, validation_loss=loss, seconds=time.perf_counter() - begun)
        if self.observer:
            self.observer.validated(step, loss, best)
        if best and self.settings.keep_best:
            self.save()

    def save(self) -> Checkpoint:
        """Writes a checkpoint of this step (once) and removes those that are not kept."""
        known = latest_checkpoint(self.checkpoint_folder)
        if known and known.step == self.counters.step:
            return known
        facts = {"counters": asdict(self.counters), "seed": self.seed, "fingerprint": self.fingerprint}
        saved = write_checkpoint(self.checkpoint_folder, self.counters.step, self.state.save, facts, self.state_name)
        prune(self.checkpoint_folder, self.settings.keep_last, self.counters.best_step if self.settings.keep_best else None)
        if self.observer:
            self.observer.saved(saved)
        return saved

    def result(self, seconds: float) -> TrainResult:
        c = self.counters
        return TrainResult(c.step, self.last_loss, c.validation_loss, c.best_step, c.best_loss, c.tokens, seconds, self.chosen())

    def chosen(self) -> Checkpoint:
        """The checkpoint to export: the best one where it is kept, else the last."""
        from hierarchos.training.checkpoint import checkpoints

        kept = {c.step: c for c in checkpoints(self.checkpoint_folder)}
        if self.settings.keep_best and self.counters.best_step in kept:
            return kept[self.counters.best_step]
        return kept[max(kept)]


def due(step: int, every: int) -> bool:
    """Whether something that happens every so many steps (0: never) happens at this one."""
    return every > 0 and step % every == 0
