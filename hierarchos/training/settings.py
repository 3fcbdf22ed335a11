"""What the training loop needs from a configuration. `pipelines/config/train.py` holds defaults, help and ranges."""
from __future__ import annotations

import math
from typing import Protocol


class OptimizerSettings(Protocol):
    name: str
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    no_decay: list[str]
    momentum: float


class ScheduleSettings(Protocol):
    name: str
    warmup: float
    floor: float


class TrainSettings(Protocol):
    learning_rate: float
    steps: int | None
    epochs: float
    batch_size: int
    accumulation: int
    sequence_length: int
    max_grad_norm: float
    optimizer: OptimizerSettings
    schedule: ScheduleSettings
    dropout: bool
    recompute: bool
    eval_every: int
    checkpoint_every: int
    keep_last: int
    keep_best: bool


def total_steps(settings: TrainSettings, batches_per_epoch: int) -> int:
    """Optimizer steps of a run: `steps`, or what `epochs` passes need (the last step may be partial)."""
    if settings.steps is not None:
        return settings.steps
    return max(1, math.ceil(settings.epochs * batches_per_epoch / settings.accumulation))


def decays(name: str, no_decay: list[str]) -> bool:
    """Whether weight decay applies: the parameter's name contains none of the exclusions (ignoring case)."""
    return not any(part.lower() in name.lower() for part in no_decay)
