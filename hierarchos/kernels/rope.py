"""Rotary position embedding: launch and NumPy twin."""
from __future__ import annotations

from typing import TYPE_CHECKING

from hierarchos.kernels.launch import U32, In, Launch, Lowering, Operand, Out, Profile

if TYPE_CHECKING:
    import numpy as np

GPU_HEADS_EACH = 2                                  # a GPU wants invocations; a CPU wants to load the tables once for all heads


def rope(layout: str, inverse: bool, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """x (fp32 or halves), cos, sin, positions -> x rotated; both strided with channels side by side, and perhaps the same memory."""
    batch, times, heads, channels = inputs[0].shape
    table_rows, half = inputs[1].shape
    cpu = profile.device_class == "cpu"
    local, heads_each = (64, heads) if cpu else (128, min(heads, GPU_HEADS_EACH))
    groups = -(-batch * times * (channels - half) // local), -(-heads // max(1, heads_each)), 1
    assert channels == 1 or inputs[0].strides[3] == outputs[0].strides[3] == 1, "the channels of a rope lie side by side"
    numbers = (*inputs[0].strides[:3], *outputs[0].strides[:3], batch * times, times, heads, channels, half, table_rows, heads_each)
    half_ = inputs[0].dtype != "f32"
    shader, formats = ("rope_half", (inputs[0].dtype == "bf16",)) if half_ else ("rope", ())
    constants = (local, layout == "interleaved", inverse, *formats)
    launch = Launch(shader, groups, (In(0), In(1), In(2), In(3), Out(0), *map(U32, numbers)), constants, "rope",
                    3.0 * inputs[0].size, (4.0 if half_ else 8.0) * inputs[0].size)
    return Lowering((launch,))


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
