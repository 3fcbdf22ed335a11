"""Rotary position tables. The reference computes each angle as a float32 product, so we round exactly there and nowhere else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Rope:
    """Explicit rotary parameters. kind: "default", "linear" or "llama3"; width: rotated part of the head (even).

    layout: which channels are a pair, "half" (c, c + width/2) or "interleaved" (2c, 2c + 1). sign -1 rotates the other way."""

    theta: float
    width: int
    kind: str = "default"
    factor: float = 1.0
    low_frequency_factor: float = 1.0           # llama3 only, as the three below
    high_frequency_factor: float = 4.0
    original_positions: int = 8192
    layout: str = "half"
    sign: int = 1


def inverse_frequencies(rope: Rope) -> np.ndarray:
    """float32 [width/2]: theta^(-2i/width), each step rounded to float32 as the reference does, then scaled by kind."""
    import numpy as np

    exponents = np.arange(0, rope.width, 2, dtype=np.float32) / np.float32(rope.width)
    powers = np.power(np.float64(rope.theta), exponents.astype(np.float64)).astype(np.float32)
    frequencies = np.float32(1) / powers
    return SCALED[rope.kind](rope, frequencies)


def _default(rope: Rope, frequencies: np.ndarray) -> np.ndarray:
    return frequencies


def _linear(rope: Rope, frequencies: np.ndarray) -> np.ndarray:
    """Positions divided by `factor`, written as frequencies divided by it."""
    import numpy as np

    return frequencies / np.float32(rope.factor)


def _llama3(rope: Rope, frequencies: np.ndarray) -> np.ndarray:
    """Long wavelengths divided by `factor`, short ones kept, a linear blend between; all in float32."""
    import numpy as np

    low, high = np.float32(rope.low_frequency_factor), np.float32(rope.high_frequency_factor)
    positions, factor = np.float32(rope.original_positions), np.float32(rope.factor)
    wavelength = np.float32(2 * math.pi) / frequencies
    long = wavelength > np.float32(rope.original_positions / rope.low_frequency_factor)
    short = wavelength < np.float32(rope.original_positions / rope.high_frequency_factor)
    scaled = np.where(long, frequencies / factor, frequencies)
    blend = (positions / wavelength - low) / (high - low)
    blended = (np.float32(1) - blend) * scaled / factor + blend * scaled
    return np.where(~long & ~short, blended, scaled).astype(np.float32)


SCALED = {"default": _default, "linear": _linear, "llama3": _llama3}


def rope_tables(rope: Rope, positions: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin, float32 [positions, width/2]: accurate values of the float32 angles."""
    import numpy as np

    angles = (np.arange(positions, dtype=np.float32)[:, None] * inverse_frequencies(rope)[None, :]).astype(np.float64)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
