"""How rotary frequencies change for lengths beyond those a model was first trained for.

Each scaling gives `frequencies(theta, width, length)`, float32 [width/2] of rows of `length` tokens, and `amplitude`, the factor on
cos and sin. Every step is rounded to float32 where the reference does so: angles reach thousands of radians, so that one rounding
of a frequency shows in the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def powers(theta: float, width: int) -> np.ndarray:
    """theta^(2i/width), float32 [width/2]."""
    import numpy as np

    exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    return np.power(np.float64(np.float32(theta)), exponents.astype(np.float64)).astype(np.float32)


def inverse(values: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.float32(1) / values


@dataclass(frozen=True)
class Unscaled:
    """theta^(-2i/width)."""

    amplitude = 1.0

    def frequencies(self, theta: float, width: int, length: int) -> np.ndarray:
        return inverse(powers(theta, width))


@dataclass(frozen=True)
class Linear:
    """Positions divided by `factor`, written as frequencies divided by it."""

    factor: float
    amplitude = 1.0

    def frequencies(self, theta: float, width: int, length: int) -> np.ndarray:
        import numpy as np

        return inverse(powers(theta, width)) / np.float32(self.factor)


@dataclass(frozen=True)
class Alpha:
    """A larger base, theta * alpha^(width/(width-2)), the same at every length (NTK)."""

    alpha: float
    amplitude = 1.0

    def frequencies(self, theta: float, width: int, length: int) -> np.ndarray:
        return inverse(powers(theta * self.alpha ** (width / (width - 2)), width))


@dataclass(frozen=True)
class Dynamic:
    """A base that grows with the length of the rows once it passes `positions` (dynamic NTK).

    The length is that of the row, padding and packed documents included: what the reference sees without position_ids."""

    factor: float
    positions: int
    amplitude = 1.0

    def frequencies(self, theta: float, width: int, length: int) -> np.ndarray:
        import numpy as np

        stretch = np.float32(self.factor * max(length, self.positions)) / np.float32(self.positions) - np.float32(self.factor - 1)
        growth = np.float32(np.float64(stretch) ** (width / (width - 2)))
        return inverse(powers(np.float32(theta) * growth, width))


@dataclass(frozen=True)
class Llama3:
    """Long wavelengths divided by `factor`, short ones kept, a linear blend between; `original` is the first trained length."""

    factor: float
    low: float
    high: float
    original: int
    amplitude = 1.0

    def frequencies(self, theta: float, width: int, length: int) -> np.ndarray:
        import numpy as np

        frequencies = inverse(powers(theta, width))
        low, high, factor = np.float32(self.low), np.float32(self.high), np.float32(self.factor)
        wavelength = inverse(frequencies) * np.float32(2 * math.pi)     # PyTorch divides a number by a tensor in these two steps
        long, short = wavelength > np.float32(self.original / self.low), wavelength < np.float32(self.original / self.high)
        scaled = np.where(long, frequencies / factor, frequencies)
        blend = (inverse(wavelength) * np.float32(self.original) - low) / (high - low)
        blended = (np.float32(1) - blend) * scaled / factor + blend * scaled
        return np.where(~long & ~short, blended, scaled).astype(np.float32)


@dataclass(frozen=True)
class Yarn:
    """High frequencies kept, low ones divided by `factor`, a ramp between the channels that turn `fast` and `slow` times in `original`
    tokens (whole channels when `truncate`). https://arxiv.org/abs/2309.00071"""

    factor: float
    original: int
    amplitude: float
    fast: float = 32.0
    slow: float = 1.0
    truncate: bool = True

    def frequencies(self, theta: float, width: int, length: int) -> np.ndarray:
        import numpy as np

        base = powers(theta, width)
        low, high = self.ramp(theta, width)
        rise = (np.arange(width // 2, dtype=np.float32) - np.float32(low)) / np.float32(high - low)
        kept = np.float32(1) - np.clip(rise, np.float32(0), np.float32(1))
        return inverse(np.float32(self.factor) * base) * (np.float32(1) - kept) + inverse(base) * kept

    def ramp(self, theta: float, width: int) -> tuple[float, float]:
        """The channels between which the frequencies change over."""
        low, high = (width * math.log(self.original / (turns * 2 * math.pi)) / (2 * math.log(theta)) for turns in (self.fast, self.slow))
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, width - 1)
        return low, high + 0.001 if low == high else high

    @staticmethod
    def natural_amplitude(factor: float, scale: float = 1.0, over: float | None = None) -> float:
        """0.1 scale ln(factor) + 1, divided by the same with `over` in place of scale where that is given."""
        def grown(by: float) -> float:
            return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0
        return grown(scale) if over is None else grown(scale) / grown(over)


@dataclass(frozen=True)
class LongRope:
    """A divisor for each frequency: `short` ones up to `original` tokens, `long` ones beyond. https://arxiv.org/abs/2402.13753

    Which of the two is decided by the longest row of the batch, as in the reference."""

    short: tuple[float, ...]
    long: tuple[float, ...]
    original: int
    amplitude: float

    def frequencies(self, theta: float, width: int, length: int) -> np.ndarray:
        import numpy as np

        return inverse(np.array(self.long if length > self.original else self.short, np.float32) * powers(theta, width))

    @staticmethod
    def natural_amplitude(factor: float, original: int) -> float:
        """sqrt(1 + ln(factor) / ln(original)), where factor = longest length / original."""
        return 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))


Scaling = Unscaled | Linear | Alpha | Dynamic | Llama3 | Yarn | LongRope
