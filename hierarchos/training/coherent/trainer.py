"""The training loop over coherent-v9: the general one with its own state, step and schedule."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hierarchos.models.coherent_v9.chunk import Chunk
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.parameters import parameters
from hierarchos.training.coherent.schedule import learning_rate, warmup_length
from hierarchos.training.coherent.state import CoherentState
from hierarchos.training.coherent.step import CoherentStep, Objective
from hierarchos.training.loop import Batches, Counters, Observer, Trainer
from hierarchos.training.settings import TrainSettings, total_steps


@dataclass(frozen=True)
class ModelSize:
    """What observers ask of a model."""

    size: int


class CoherentTrainer(Trainer):
    """Trains a configuration on `train`. trained: names of the tensors that change; None: all of them."""

    def __init__(self, cfg: Config, settings: TrainSettings, train: Batches, validation: Sequence[dict], device, folder: Path, *,
                 shape: tuple[int, int], padded: bool, seed: int = 0, observer: Observer | None = None, fingerprint: str = "",
                 objective: Objective | None = None, trained: frozenset[str] | None = None,
                 chunk: Chunk | None = None):
        self.model = ModelSize(sum(spec.size for spec in parameters(cfg)))
        self.cfg, self.settings, self.train_batches, self.validation = cfg, settings, train, validation
        self.folder, self.seed, self.observer, self.fingerprint = Path(folder), seed, observer, fingerprint
        self.steps = total_steps(settings, len(train))
        self.state = CoherentState(cfg, device, settings.optimizer, settings.max_grad_norm, trained)
        self.step = CoherentStep(self.state, *shape, padded, objective or Objective(grad_clip=settings.max_grad_norm or 1.0), chunk)
        self.counters = Counters()
        self.last_loss = None

    def rate(self, number: int) -> float:
        """The model's own cosine where the schedule is one: its warm-up starts at the lowest rate, not at 0."""
        schedule, highest = self.settings.schedule, self.settings.learning_rate
        if schedule.name != "cosine":
            return super().rate(number)
        warmup = schedule.warmup
        length = warmup_length(self.steps, int(warmup) if warmup >= 1 else 0, warmup if warmup < 1 else 0.0)
        return learning_rate(number, self.steps, highest, highest * schedule.floor, length)
