"""Rotary position tables. The reference computes each angle as a float32 product, so we round exactly there and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.nn.rope_scaling import Scaling, Unscaled

if TYPE_CHECKING:
    import numpy as np


UNSCALED = Unscaled()


@dataclass(frozen=True)
class Rope:
    """Explicit rotary parameters. width: rotated part of the head (even).

    layout: which channels are a pair, "half" (c, c + width/2) or "interleaved" (2c, 2c + 1). sign -1 rotates the other way."""

    theta: float
    width: int
    scaling: Scaling = UNSCALED
    layout: str = "half"
    sign: int = 1


def inverse_frequencies(rope: Rope, length: int = 1) -> np.ndarray:
    """float32 [width/2] for rows of `length` tokens, which matters to few scalings."""
    return rope.scaling.frequencies(rope.theta, rope.width, length)


def rope_tables(rope: Rope, positions: int, length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin, float32 [positions, width/2]: accurate values of the float32 angles, times the scaling's amplitude.

    length: of the rows, `positions` where not given."""
    import numpy as np

    frequencies = inverse_frequencies(rope, positions if length is None else length)
    angles = (np.arange(positions, dtype=np.float32)[:, None] * frequencies[None, :]).astype(np.float64)
    amplitude = np.float32(rope.scaling.amplitude)
    return np.cos(angles).astype(np.float32) * amplitude, np.sin(angles).astype(np.float32) * amplitude
