"""Which base an adapter belongs to, known by its values."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def base_hash(names: Iterable[str], values: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, shapes and float32 values of all parameters: the same for every file format that holds the same numbers."""
    import numpy as np

    total = sha256()
    for name in sorted(names):
        value = np.ascontiguousarray(values[name], np.float32)
        total.update(f"{name} {list(value.shape)}\n".encode())
        total.update(value.data)
    return total.hexdigest()
