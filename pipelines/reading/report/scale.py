"""From values to places on a picture."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LOG_FROM = 100.0          # a ratio of largest to smallest from which an axis is logarithmic


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`, drawn from `first` to `last` (in pixels)."""

    low: float
    high: float
    first: float
    last: float
    log: bool = False

    @classmethod
    def of(cls, values: Sequence[float], first: float, last: float, log: bool | None = None) -> Scale:
        """Holds all values; logarithmic where they span much and are positive, unless `log` says which."""
        low, high = min(values), max(values)
        log = low > 0 and high / low >= LOG_FROM if log is None else log and low > 0
        if low == high:
            pad = abs(low) * 0.1 or 1.0
            low, high = low - pad, high + pad
        return cls(low, high, first, last, log and low > 0)

    def place(self, value: float) -> float:
        """Pixels."""
        low, high, value = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        return self.first + (value - low) / (high - low) * (self.last - self.first)

    def ticks(self, wanted: int = 6) -> list[float]:
        """Round values inside the axis."""
        if self.log:
            return self.log_ticks(wanted)
        raw = (self.high - self.low) / max(1, wanted - 1)
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(size * times for times in (1, 2, 5, 10) if size * times >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def log_ticks(self, wanted: int) -> list[float]:
        """Powers of ten; also 2 and 5 times them where there are few."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for times in ((1,), (1, 3), (1, 2, 5)):
            found = [factor * 10.0**power for power in powers for factor in times if self.low <= factor * 10.0**power <= self.high]
            if len(found) >= min(3, wanted):
                return found[::max(1, math.ceil(len(found) / (wanted + 2)))]
        return found or [self.low, self.high]


def label(value: float) -> str:
    """A value in few characters: 1200, 0.03, 1e-05."""
    return f"{value:.6g}" if 1e-3 <= abs(value) < 1e6 or value == 0 else f"{value:.3g}"
