"""How a model is trained."""
from __future__ import annotations

from dataclasses import dataclass, field

from pipelines.config.setting import setting


@dataclass(frozen=True)
class OptimizerConfig:
    """The update rule."""

    name: str = setting("adamw", choices=("adamw", "sgd"))
    """adamw: Adam with decoupled weight decay; sgd: plain or with momentum."""

    beta1: float = setting(0.9, at_least=0, below=1)
    """adamw: decay of the first moment."""

    beta2: float = setting(0.999, at_least=0, below=1)
    """adamw: decay of the second moment."""

    eps: float = setting(1e-8, above=0)
    """adamw: added to the root of the second moment."""

    weight_decay: float = setting(0.01, at_least=0)
    """Share of a weight, times the learning rate, that is taken away each step."""

    decay_vectors: bool = setting(False)
    """Whether the weights of norms and biases are decayed too; usually only matrices and embeddings are."""

    no_decay: list[str] = setting([])
    """Parameters whose name contains one of these are not decayed either."""

    momentum: float = setting(0.0, at_least=0, below=1)
    """sgd: decay of the running gradient; 0 keeps none."""


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate over the steps."""

    name: str = setting("cosine", choices=("constant", "linear", "cosine"))
    """Shape after the warm-up: stays, falls in a line, or falls along half a cosine."""

    warmup: float = setting(0.0, at_least=0)
    """Below 1: share of all steps; from 1 on: a number of steps. The rate rises in a line from 0."""

    floor: float = setting(0.0, at_least=0, at_most=1)
    """linear, cosine: the last rate, as a share of train.learning_rate."""


@dataclass(frozen=True)
class TrainConfig:
    """The training loop. A step is `batch_size` x `accumulation` sequences of `sequence_length` tokens."""

    learning_rate: float = setting(1e-3, above=0)
    """The highest rate of the schedule."""

    steps: int | None = setting(None, at_least=1)
    """Optimizer steps; null: as many as `epochs` needs."""

    epochs: float = setting(1.0, above=0)
    """Passes over the rows, where `steps` is null."""

    batch_size: int = setting(8, at_least=1)
    """Sequences computed at once."""

    accumulation: int = setting(1, at_least=1)
    """Batches whose gradients make one step, weighted by their trained tokens."""

    sequence_length: int = setting(128, at_least=2)
    """Tokens in a sequence."""

    max_grad_norm: float = setting(1.0, at_least=0)
    """Gradients are scaled down to this global norm; 0 leaves them as they are."""

    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """The update rule."""

    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    """The learning rate over the steps."""

    dropout: bool = setting(True)
    """Whether the dropout that the model's config asks for is applied."""

    recompute: bool = setting(False)
    """Computes each block's activations again in the backward pass: less memory, about a third more time."""

    shuffle: bool = setting(True)
    """Draws the rows of each epoch in a new order, decided by run.seed."""

    eval_every: int = setting(100, at_least=0)
    """Steps between validations; 0: only at the end."""

    eval_batches: int | None = setting(None, at_least=1)
    """Batches of a validation; null: all of the validation rows."""

    checkpoint_every: int = setting(100, at_least=0)
    """Steps between checkpoints; 0: only at the end."""

    keep_last: int = setting(2, at_least=1)
    """Checkpoints kept: the last so many."""

    keep_best: bool = setting(True)
    """Keeps the checkpoint with the lowest validation loss as well, and exports it."""
