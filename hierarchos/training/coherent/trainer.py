"""The training loop over coherent-v9: the general one with its own state, step and schedule."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hierarchos.models.coherent_v9.chunk import Chunk
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.package import WEIGHTS
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
    """Trains a configuration on `train`. trained: names of the tensors that change; None: all of them.

    persist: the state goes on from batch to batch."""

    state_name = WEIGHTS

    def __init__(self, cfg: Config, settings: TrainSettings, train: Batches, validation: Sequence[dict], device, folder: Path, *,
                 shape: tuple[int, int], padded: bool, seed: int = 0, observer: Observer | None = None, fingerprint: str = "",
                 objective: Objective | None = None, trained: frozenset[str] | None = None,
                 chunk: Chunk | None = None, persist: bool = False):
        self.model = ModelSize(sum(spec.size for spec in parameters(cfg)))
        self.cfg, self.settings, self.train_batches, self.validation = cfg, settings, train, validation
        self.folder, self.seed, self.observer, self.fingerprint = Path(folder), seed, observer, fingerprint
        self.steps = total_steps(settings, len(train))
        self.state = CoherentState(cfg, device, settings.optimizer, settings.max_grad_norm, trained)
        self.step = CoherentStep(self.state, *shape, padded, objective or Objective(grad_clip=settings.max_grad_norm or 1.0), chunk,
                                 persist, settings.recompute)
        self.state.step = self.step
        self.counters = Counters()
        self.last_loss = None
        self.next_batches: tuple[int, list[dict]] = (-1, [])
        self.state.session, self.step.memory_rate, self.step.window = self.session, self.memory_rate, settings.accumulation

    def step_batches(self, number: int) -> list[dict]:
        """The batches of a step; those of the next one are drawn too, so that their predictions are made while the device works."""
        known, batches = self.next_batches
        batches = batches if known == number else super().step_batches(number)
        ahead = number + 1 < self.steps and not self.step.persist           # a checkpoint's automata have seen no batch that is to come
        following = super().step_batches(number + 1) if ahead else []
        for batch in (*batches, *following):
            self.step.ahead(batch)
        self.next_batches = number + 1 if following else -1, following
        return batches

    def rate(self, number: int) -> float:
        """The model's own cosine where the schedule is one: its warm-up starts at the lowest rate, not at 0."""
        schedule, highest = self.settings.schedule, self.settings.learning_rate
        if schedule.name != "cosine":
            return super().rate(number)
        return learning_rate(number, self.steps, highest, highest * schedule.floor, self.warmup())

    def warmup(self) -> int:
        """Steps of the warm-up: a number of them, or a share of all where it is below 1."""
        given = self.settings.schedule.warmup
        return warmup_length(self.steps, int(given) if given >= 1 else 0, given if given < 1 else 0.0)

    def memory_rate(self, number: int) -> float:
        """Rate of the fast memory's inner updates in step `number`: half a cosine from ltm_lr to the lowest rate of training."""
        lowest = min(self.cfg.ltm_lr, self.settings.learning_rate * self.settings.schedule.floor)
        return learning_rate(number, self.steps, self.cfg.ltm_lr, lowest, 0) if self.cfg.ltm_lr > 0 else 0.0

    def session(self) -> dict:
        """Where the run stands, as checkpoints say it."""
        settings, done, epoch = self.settings, self.counters.step, len(self.train_batches)
        batches, last = done * settings.accumulation, max(done - 1, 0)
        inner = self.cfg.ltm_training_mode == "inner-update"
        rates = [self.rate(last)] * 2                                       # of both groups of weight decay
        main = {"enabled": settings.schedule.name != "constant", "step": done, "total_steps": self.steps,
                "max_lr": settings.learning_rate, "min_lr": settings.learning_rate * settings.schedule.floor, "warmup_steps": self.warmup(),
                "base_lrs": [settings.learning_rate] * 2, "last_lrs": rates, "step_count": done}
        memory = {"enabled": inner, "step": done if inner else 0, "last_lrs": [self.memory_rate(last) if inner else self.cfg.ltm_lr]}
        cursor = {"seed": self.seed, "epoch": batches // epoch, "batch": batches % epoch}
        return {"completed_epoch": cursor["epoch"], "mid_epoch_step": cursor["batch"], "main_lr_scheduler": main,
                "ltm_lr_scheduler": memory, "effective_training_config": plain(settings), "skipped_train_batches": 0,
                "data_stream_cursor": cursor, "execution_policy": {"precision": "fp32", "accumulation_normalization":
                                                                   self.step.objective.normalization}}


def plain(settings) -> dict:
    """Settings as JSON holds them; numbers that it cannot hold become text."""
    def told(value):
        if isinstance(value, dict):
            return {str(key): told(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [told(inner) for inner in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value
    return told(asdict(settings))
