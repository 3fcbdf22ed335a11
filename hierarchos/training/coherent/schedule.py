"""Learning rate and order of rows as the specification has them."""
from __future__ import annotations

import math

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


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


def splitmix64(state: int) -> tuple[int, int]:
    """(number, next state) of the generator SplitMix64."""
    state = (state + GOLDEN) & MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31), state


def permutation(count: int, seed: int, epoch: int) -> list[int]:
    """Order of rows in an epoch: Fisher-Yates with SplitMix64, the same in every implementation."""
    order, state = list(range(count)), (seed + epoch * GOLDEN) & MASK
    for last in range(count - 1, 0, -1):
        number, state = splitmix64(state)
        other = number % (last + 1)
        order[last], order[other] = order[other], order[last]
    return order
