"""The half formats: f16 (IEEE binary16) and bf16 (bfloat16). The NumPy twins of include/half.glsl."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

HALVES = ("f16", "bf16")
LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38}


def round_to(x: np.ndarray, dtype: str) -> np.ndarray:
    """The nearest numbers of a half format (ties to even), in the dtype of x, as kernels give them that hold x in float32."""
    import numpy as np

    wide = x.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = wide.astype(np.float16).astype(np.float32) if dtype == "f16" else from_bits(to_bits(wide, "bf16"), "bf16")
    return rounded.astype(x.dtype)


def to_bits(x: np.ndarray, dtype: str) -> np.ndarray:
    """uint16 patterns of float32 values."""
    import numpy as np

    if dtype == "f16":
        with np.errstate(over="ignore", invalid="ignore"):
            return x.astype(np.float16).view(np.uint16)
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), bits >> np.uint32(16) | np.uint32(0x40), rounded).astype(np.uint16)


def from_bits(bits: np.ndarray, dtype: str) -> np.ndarray:
    """float32 values of uint16 patterns."""
    import numpy as np

    if dtype == "f16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
