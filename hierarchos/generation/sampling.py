"""Choosing the next token from logits. Random numbers depend on (seed, row, position) only, not on batch or call order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.errors import UserError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Sampling:
    """temperature 0 is greedy. top_k 0 and top_p 1 keep every token; both are applied after the temperature."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        ranges = {"temperature": (self.temperature >= 0, "0 (greedy) or more"), "top_k": (self.top_k >= 0, "0 (off) or more"),
                  "top_p": (0 < self.top_p <= 1, "above 0, at most 1 (off)")}
        for name, (fits, allowed) in ranges.items():
            if not fits:
                raise UserError(f"{name} is {getattr(self, name)}; it can be {allowed}", where=f"generate.{name}")


def choose(logits: np.ndarray, sampling: Sampling, row: int, position: int) -> int:
    """The token of one row from its logits [V]; `position` is that of the new token."""
    import numpy as np

    if not np.isfinite(logits).all():
        raise UserError(f"the logits of row {row} at position {position} are not finite: the weights are damaged or overflow",
                        outcome="generation stopped")
    if sampling.temperature == 0:
        return int(np.argmax(logits))
    probabilities = kept_probabilities(logits.astype(np.float64) / sampling.temperature, sampling)
    return int(min(np.searchsorted(np.cumsum(probabilities), uniform(sampling.seed, row, position), side="right"), len(logits) - 1))


def kept_probabilities(scores: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Softmax over the `top_k` best, of which the fewest that reach `top_p` are kept; 0 elsewhere, sum 1."""
    import numpy as np

    order = np.argsort(-scores, kind="stable")
    if sampling.top_k:
        order = order[:sampling.top_k]
    weights = np.exp(scores[order] - scores[order[0]])
    weights /= weights.sum()
    before = np.cumsum(weights) - weights
    weights = np.where(before < sampling.top_p, weights, 0.0)
    result = np.zeros(len(scores))
    result[order] = weights / weights.sum()
    return result


def uniform(seed: int, row: int, position: int) -> float:
    """A number in [0, 1) of the counter (row, position) under the key `seed` (Philox 4x64)."""
    import numpy as np

    return float(np.random.Generator(np.random.Philox(key=seed & (2**64 - 1), counter=[0, position, row, 0])).random())
