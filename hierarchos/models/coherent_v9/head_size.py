"""Head sizes and low-rank widths that follow from a width alone."""
from __future__ import annotations

import math


def automatic_head_size(width: int) -> int:
    """The divisor of `width`, at most 128 and if possible at least 16, that is nearest to 64 by ratio (the smaller on a tie)."""
    divisors = [n for n in range(1, min(width, 128) + 1) if width % n == 0]
    large = [n for n in divisors if n >= 16] or divisors
    return min(large, key=lambda n: (abs(math.log(n / 64)), n > 64))


def low_rank(width: int, scale: float) -> int:
    """Inner width of a low-rank pair: scale 2.5 for decay and in-context rate, 5 for the gate."""
    return 8 if width < 128 else max(32, 32 * round(scale * math.sqrt(width) / 32))


def decay_rank(width: int) -> int:
    return low_rank(width, 2.5)


def gate_rank(width: int) -> int:
    return low_rank(width, 5.0)
