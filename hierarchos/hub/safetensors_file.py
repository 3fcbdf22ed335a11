"""One safetensors file: memory-mapped tensors read as float32 arrays, and float32 tensors written one after the other."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.hub.convert import as_float32
from hierarchos.hub.header import ITEM_BYTES, read_header

if TYPE_CHECKING:
    import numpy as np


class TensorFile:
    """The tensors of one file. The mapping lives as long as any array that was taken from it."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self.entries, self.metadata = read_header(self.path)
        with self.path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def read(self, name: str, first: int = 0, last: int | None = None) -> np.ndarray:
        """float32 values of one tensor, or of its rows first .. last: a read-only view of the file for F32, converted otherwise (BF16
        and F16 exactly)."""
        entry = self.entries[name]
        raw, shape = self.raw(name), entry.shape
        if last is not None:
            row = len(raw) // shape[0]
            raw, shape = raw[first * row:last * row], (last - first, *shape[1:])
        return as_float32(raw, entry, name, self.path).reshape(shape)

    def raw(self, name: str) -> np.ndarray:
        """The bytes of one tensor as uint8, without a copy."""
        import numpy as np

        entry = self.entries[name]
        return np.frombuffer(self._bytes, np.uint8, entry.stop - entry.start, entry.start)

    def advise(self, name: str, needed: bool) -> None:
        """Tells the system that a tensor's bytes are needed soon, or not any more (what is needed again is read again)."""
        if not hasattr(self._bytes, "madvise"):
            return
        entry, page = self.entries[name], mmap.PAGESIZE
        start = entry.start // page * page if needed else -(-entry.start // page) * page        # never a neighbour's pages
        stop = entry.stop if needed else entry.stop // page * page
        if stop > start:
            self._bytes.madvise(mmap.MADV_WILLNEED if needed else mmap.MADV_DONTNEED, start, stop - start)


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> None:
    """Writes float32 tensors and syncs the file to disk. A value may be lazy: an object with shape, dtype, nbytes and `__array__`,
    which is called when its turn comes, so that memory for one tensor is enough; see `held.Lazy`, whose dtype may be another.
    metadata: of the file, in place of the usual one."""
    import numpy as np

    types = {name: stored_type(name, tensor) for name, tensor in tensors.items()}
    order = sorted(tensors, key=lambda name: -ITEM_BYTES[types[name]])      # wide types first, so that each lies at a multiple of its size
    header, offset = {"__metadata__": dict(metadata or {"format": "pt"})}, 0
    for name in order:
        header[name] = {"dtype": types[name], "shape": list(tensors[name].shape), "data_offsets": [offset, offset + tensors[name].nbytes]}
        offset += tensors[name].nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)      # tensors start at a multiple of 8
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            values = np.ascontiguousarray(tensors[name], "<f4" if types[name] == "F32" and tensors[name].dtype != "F32" else None)
            assert values.nbytes == tensors[name].nbytes, f"{name} has {values.nbytes} bytes, not {tensors[name].nbytes}"
            file.write(values.data)
        sync(file)


def stored_type(name: str, tensor) -> str:
    """What the file calls the type of a tensor: that of float32 values, or what a lazy one says."""
    import numpy as np

    assert tensor.dtype in ITEM_BYTES if isinstance(tensor.dtype, str) else tensor.dtype == np.float32, f"{name} is {tensor.dtype}"
    return tensor.dtype if isinstance(tensor.dtype, str) else "F32"


def sync(file) -> None:
    """Makes what was written to an open file durable."""
    file.flush()
    os.fsync(file.fileno())
