"""Rotary position embedding: which shader, how many workgroups, which arguments."""
from __future__ import annotations

from typing import TYPE_CHECKING

from hierarchos.kernels.copy import fold_groups
from hierarchos.kernels.launch import U32, In, Launch, Lowering, Operand, Out, Profile

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


def rope(layout: str, inverse: bool, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """x [B,T,H,D] (any strides), cos and sin [P,R/2], positions [B,T] -> [B,T,H,D]."""
    x, cos = inputs[:2]
    batch, length, heads, width = x.shape
    if not x.size:
        return Lowering(())
    cpu = profile.device_class == "cpu"
    each = max(1, 256 // (heads * width)) if cpu else 1
    units = heads * (width - cos.shape[1])
    local = profile.subgroup if cpu else min(256, -(-units // 32) * 32)
    numbers = (batch * length, each, length, heads, width, cos.shape[1], cos.shape[0], *x.strides)
    arguments = (In(0), In(1), In(2), In(3), Out(0), *map(U32, numbers))
    groups = fold_groups(-(-batch * length // each), 1, profile)
    constants = (local, layout == "interleaved", inverse, cpu)
    return Lowering((Launch("rope", groups, arguments, constants, "rope", 3.0 * x.size, 8.0 * x.size),))
