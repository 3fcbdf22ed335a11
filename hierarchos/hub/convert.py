"""Stored numbers -> float32. Large tensors are converted in pieces by several threads: NumPy lets others run meanwhile."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.hub.header import BadTensorFile, Entry

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
PIECE = 1 << 20         # values that a thread converts at a time: 4 MiB of float32, which a core's cache holds about
MOST_THREADS = 8        # more of them only wait for memory


def as_float32(raw: np.ndarray, entry: Entry, name: str, path: Path) -> np.ndarray:
    """Little-endian bytes of a float tensor -> float32 array, flat: a view for F32, exact for BF16 and F16."""
    import numpy as np

    if entry.dtype not in FLOATS:
        raise BadTensorFile(f"{name} is stored as {entry.dtype}; parameters can be {', '.join(FLOATS)}", where=str(path),
                            hint="quantised packages are not supported: take the original one", outcome="nothing was loaded")
    stored = raw.view(FLOATS[entry.dtype])
    if entry.dtype == "F32":
        return stored.astype(np.float32, copy=False)
    out = np.empty(stored.size, np.float32)
    convert = _from_bfloat16 if entry.dtype == "BF16" else np.copyto
    spans = [slice(start, start + PIECE) for start in range(0, stored.size, PIECE)]
    if len(spans) < 2:
        convert(out, stored)
    else:
        for done in [threads().submit(convert, out[span], stored[span]) for span in spans]:
            done.result()
    return out


def _from_bfloat16(out: np.ndarray, stored: np.ndarray) -> None:
    """A bfloat16 is the upper half of the float32 of the same value."""
    import numpy as np

    bits = out.view(np.uint32)
    np.left_shift(stored, np.uint32(16), out=bits, dtype=np.uint32)


@cache
def threads() -> ThreadPoolExecutor:
    """The threads that convert, made at first need."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), "convert")
