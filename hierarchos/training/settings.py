"""What the training loop needs from a configuration. `pipelines/config/train.py` holds defaults, help and ranges."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hierarchos.nn.weights import ParameterSpec


class OptimizerSettings(Protocol):
    name: str
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    decay_vectors: bool
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


def decays(spec: ParameterSpec, optimizer: OptimizerSettings) -> bool:
    """Whether weight decay applies to a parameter: the loss depends on it, the model declares it so (matrices and embeddings yes, norms
    and biases no, whatever they are called) or `decay_vectors` asks for it, and its name contains no exclusion (ignoring case)."""
    excluded = any(part.lower() in spec.name.lower() for part in optimizer.no_decay)
    return spec.used and (spec.decay or optimizer.decay_vectors) and not excluded
