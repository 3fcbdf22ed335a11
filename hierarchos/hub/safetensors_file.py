"""One safetensors file: memory-mapped tensors read as float32 arrays, and float32 tensors written one after the other."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.hub.header import BadTensorFile, Entry, read_header

if TYPE_CHECKING:
    import numpy as np

FLOATS = ("F64", "F32", "F16", "BF16")


class TensorFile:
    """The tensors of one file. The mapping lives as long as any array that was taken from it."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self.entries, self.metadata = read_header(self.path)
        with self.path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def read(self, name: str) -> np.ndarray:
        """float32 values of one tensor: a read-only view of the file for F32, converted otherwise (BF16 and F16 exactly)."""
        return as_float32(self.raw(name), self.entries[name], name, self.path)

    def raw(self, name: str) -> np.ndarray:
        """The bytes of one tensor as uint8, without a copy."""
        import numpy as np

        entry = self.entries[name]
        return np.frombuffer(self._bytes, np.uint8, entry.stop - entry.start, entry.start)


def as_float32(raw: np.ndarray, entry: Entry, name: str, path: Path) -> np.ndarray:
    """Little-endian bytes of a float tensor -> float32 array of its shape."""
    import numpy as np

    if entry.dtype not in FLOATS:
        raise BadTensorFile(f"{name} is stored as {entry.dtype}; parameters can be {', '.join(FLOATS)}", where=str(path),
                            hint="quantised packages are not supported: take the original one", outcome="nothing was loaded")
    if entry.dtype == "BF16":
        values = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        values = raw.view({"F64": "<f8", "F32": "<f4", "F16": "<f2"}[entry.dtype]).astype(np.float32, copy=False)
    return values.reshape(entry.shape)


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes float32 tensors and syncs the file to disk. A value may be lazy: an object with shape, dtype, nbytes and `__array__`,
    which is called when its turn comes, so that memory for one tensor is enough."""
    import numpy as np

    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        assert tensor.dtype == np.float32, f"{name} is {tensor.dtype}"
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)      # tensors start at a multiple of 8
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor, "<f4").data)
        sync(file)


def sync(file) -> None:
    """Makes what was written to an open file durable."""
    file.flush()
    os.fsync(file.fileno())
