"""Positions that enter as numbers added to the embedding or to the scores of attention, not as rotations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.nn.batch import Batch
from hierarchos.nn.weights import Initial, Weights

if TYPE_CHECKING:
    import numpy as np


def learned(w: Weights, leaf: str, batch: Batch, count: int, width: int, offset: int = 0, initial: Initial | None = None) -> Tensor:
    """Rows of `leaf.weight` [count + offset, width] at the batch's positions + offset: [B,T,width]."""
    check_length(batch, count)
    table = w.parameter(f"{leaf}.weight", (count + offset, width), initial)
    return F.embedding(batch.positions + offset if offset else batch.positions, table)


def check_length(batch: Batch, count: int) -> None:
    """Raises `UserError` where a row is longer than the table of positions."""
    if batch.max_positions > count:
        raise UserError(f"rows of {batch.max_positions} tokens do not fit: the model has {count} learned positions",
                        hint="shorten the rows, or train a model with more positions")


def sinusoidal(batch: Batch, width: int, offset: int = 0, zero_row: int | None = None) -> Tensor:
    """[sin | cos] of positions + offset, frequencies 10000^(-i / (width/2 - 1)): [B,T,width]. zero_row: a position without a signal."""
    import numpy as np

    half = width // 2
    steps = np.arange(half, dtype=np.float32) * np.float32(-math.log(10000) / (half - 1))
    frequencies = np.exp(steps.astype(np.float64)).astype(np.float32)
    table = sine_table(np.arange(batch.max_positions + offset, dtype=np.float32)[:, None] * frequencies)
    table = np.concatenate([table, np.zeros((len(table), width % 2), np.float32)], axis=1)
    if zero_row is not None and zero_row < len(table):
        table[zero_row] = 0
    return F.embedding(batch.positions + offset if offset else batch.positions, F.constant(table))


def interleaved_sines(count: int, width: int) -> np.ndarray:
    """float32 [count, width]: sin and cos by turns of position / 10000^(2i/width), rounded once."""
    import numpy as np

    angles = np.arange(count)[:, None] / np.power(10000.0, 2 * np.arange(width // 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(count, width).astype(np.float32)


def sine_table(angles: np.ndarray) -> np.ndarray:
    """[sin | cos] of float32 angles, exact to float32: the reference rounds the angle and nothing else."""
    import numpy as np

    wide = angles.astype(np.float64)
    return np.concatenate([np.sin(wide), np.cos(wide)], axis=1).astype(np.float32)


def alibi_slopes(heads: int) -> np.ndarray:
    """float64 [heads]: 2^(-8 i / heads) for a power of two; else those of the power below, then every other one of the power above."""
    import numpy as np

    below = 1 << (heads.bit_length() - 1)
    slopes = 2.0 ** (-8.0 / below * np.arange(1, below + 1))
    return np.concatenate([slopes, 2.0 ** (-4.0 / below * np.arange(1, 2 * (heads - below) + 1, 2))])
