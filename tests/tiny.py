"""A model of a few thousand parameters, batches by number, and settings: what the training tests run on."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

TINY = {"model_type": "llama", "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 3, "num_key_value_heads": 1, "max_position_embeddings": 64, "tie_word_embeddings": True}


@dataclass(frozen=True)
class Optimizer:
    name: str = "adamw"
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.1
    decay_vectors: bool = False
    no_decay: tuple[str, ...] = ()
    momentum: float = 0.0


@dataclass(frozen=True)
class Schedule:
    name: str = "cosine"
    warmup: float = 2
    floor: float = 0.1


@dataclass(frozen=True)
class Settings:
    learning_rate: float = 3e-3
    steps: int | None = 8
    epochs: float = 1.0
    batch_size: int = 2
    accumulation: int = 1
    sequence_length: int = 11
    max_grad_norm: float = 1.0
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: Schedule = field(default_factory=Schedule)
    dropout: bool = False
    recompute: bool = False
    eval_every: int = 3
    checkpoint_every: int = 2
    keep_last: int = 3
    keep_best: bool = True


class RandomBatches:
    """Batch number n is drawn from (seed, n): as a file of tokens, it can be asked for any number."""

    def __init__(self, rows: int, length: int, vocabulary: int = 61, seed: int = 5, batches_per_epoch: int = 4):
        self.shape, self.vocabulary, self.seed, self.length = (rows, length), vocabulary, seed, batches_per_epoch

    def __len__(self) -> int:
        return self.length

    def batch(self, number: int) -> dict:
        rng = np.random.default_rng([self.seed, number])
        ids = rng.integers(0, self.vocabulary, self.shape).astype(np.int32)
        weights = (rng.random(self.shape) < 0.8).astype(np.float32)
        targets = np.where(weights > 0, np.roll(ids, -1, 1), -100).astype(np.int32)
        positions = np.tile(np.arange(self.shape[1], dtype=np.int32), (self.shape[0], 1))
        return {"ids": ids, "targets": targets, "positions": positions, "segments": np.ones(self.shape, np.int32), "token_weights": weights}
