"""How the next token is chosen: repetition penalty, temperature, top-k, top-p, in this order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LEAST_TEMPERATURE = 1e-6
CERTAIN = 0.05  # entropy stops only where the likeliest token has at most this probability
SETTLED = 3  # and after so many tokens


@dataclass(frozen=True)
class Sampling:
    """temperature <= 0: the likeliest token. top_k 0 and top_p 1: all tokens. repetition: above 1 makes earlier tokens less likely.

    entropy_stop, eos_stop: end where the entropy (nats), or the end token's probability, reaches this; None: never."""

    temperature: float = 1.0
    top_k: int = 40
    top_p: float = 0.9
    repetition: float = 1.2
    entropy_stop: float | None = None
    eos_stop: float | None = None


GREEDY = Sampling(temperature=0.0, top_k=0, top_p=1.0, repetition=1.0)


def penalised(logits: np.ndarray, previous: Iterable[int], penalty: float) -> np.ndarray:
    """Logits [V] in which each earlier token is less likely."""
    import numpy as np

    logits = np.array(logits, np.float64)
    if penalty != 1.0:
        ids = sorted(set(previous))
        z = logits[ids]
        logits[ids] = np.where(z > 0, z / penalty, z * penalty)
    return logits


def softmax(logits: np.ndarray) -> np.ndarray:
    import numpy as np

    e = np.exp(logits - logits.max())
    return e / e.sum()


def distribution(logits: np.ndarray, previous: Iterable[int], how: Sampling) -> np.ndarray:
    """Probabilities [V] of the next token; one of them is 1 where the likeliest is taken."""
    import numpy as np

    z = penalised(logits, previous, how.repetition)
    if how.temperature <= 0:
        return np.eye(1, len(z), int(z.argmax()))[0]
    if 0 < how.top_k < len(z):
        best = np.argsort(-z, kind="stable")[: how.top_k]
        kept = np.full_like(z, -np.inf)
        kept[best] = z[best]
        z = kept
    z = z / max(how.temperature, LEAST_TEMPERATURE)
    if how.top_p < 1:
        order = np.argsort(-z, kind="stable")
        before = np.cumsum(softmax(z[order])) - softmax(z[order])
        dropped = before > how.top_p
        dropped[0] = False
        z[order[dropped]] = -np.inf
    return softmax(z)


def choose(logits: np.ndarray, previous: Iterable[int], how: Sampling, random: np.random.Generator) -> int:
    """The next token."""
    import numpy as np

    p = distribution(logits, previous, how)
    if how.temperature <= 0:
        return int(p.argmax())
    return int(min(np.searchsorted(np.cumsum(p), random.random(), side="right"), len(p) - 1))


def undecided(logits: np.ndarray, tokens: int, how: Sampling, eos: int | None) -> str | None:
    """Why the text should end here by the model's own doubt: "entropy", "end token", or None."""
    import numpy as np

    p = softmax(np.array(logits, np.float64))
    if how.eos_stop is not None and eos is not None and p[eos] >= how.eos_stop:
        return "end token"
    if how.entropy_stop is not None and tokens >= SETTLED and p.max() <= CERTAIN:
        entropy = -float((p[p > 0] * np.log(p[p > 0])).sum())
        return "entropy" if entropy >= how.entropy_stop else None
    return None
