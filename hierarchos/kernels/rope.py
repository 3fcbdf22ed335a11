"""Rotary position embedding: which shader, how many workgroups, which arguments."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def rope_reference(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, positions: np.ndarray, layout: str, inverse: bool) -> np.ndarray:
    """(a, b) -> (a cos - b sin, b cos + a sin) for each pair of channels among the first R; the others are copied."""
    import numpy as np

    half = cos.shape[1]
    row = np.clip(positions, 0, cos.shape[0] - 1)
    c, s = cos[row][:, :, None].astype(x.dtype), sin[row][:, :, None].astype(x.dtype)
    s = -s if inverse else s
    first, second = (slice(0, half), slice(half, 2 * half)) if layout == "half" else (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    out = x.copy()
    out[..., first] = x[..., first] * c - x[..., second] * s
    out[..., second] = x[..., second] * c + x[..., first] * s
    return out
