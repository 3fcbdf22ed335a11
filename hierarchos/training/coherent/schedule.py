"""Learning rate as the specification has it."""
from __future__ import annotations

import math


def warmup_length(total: int, steps: int, ratio: float) -> int:
    """Updates of the warm-up: `steps` where given, else a share of all; always fewer than `total`."""
    if steps > 0:
        return min(steps, total - 1)
    return min(math.ceil(total * min(ratio, 1.0)), total - 1)


def learning_rate(update: int, total: int, highest: float, lowest: float, warmup: int) -> float:
    """Rate of update 0, 1, ...: a line up from `lowest`, then half a cosine down to it."""
    floor = lowest / highest
    if update < warmup:
        return highest * (floor + (1 - floor) * min((update + 1) / warmup, 1.0))
    length = max(1, total - warmup)
    at = min(max(update - warmup, 0), length)
    return highest * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * at / length)))
