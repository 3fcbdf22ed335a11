"""Bytes between the host and memory that it cannot see, through one small mapped buffer."""
from __future__ import annotations

from typing import TYPE_CHECKING

from hierarchos.vulkan.commands import Copy, Fill, Span

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.vulkan.device import Device
    from hierarchos.vulkan.memory import Allocation

PIECE_BYTES = 16 << 20


class Staging:
    """Uploads, downloads and clears, in pieces of at most 16 MiB. Each call returns when it is done."""

    def __init__(self, device: Device):
        self.device = device
        self._buffer: Allocation | None = None

    def buffer(self) -> Allocation:
        """The mapped buffer, made at first need."""
        if self._buffer is None:
            self._buffer = self.device.memory.allocate(PIECE_BYTES, "staging", host_visible=True)
        return self._buffer

    def upload(self, address: int, data: np.ndarray) -> None:
        """Writes contiguous uint8 `data` to device memory."""
        if not data.nbytes:
            return
        target, offset = self.device.memory.find(address, data.nbytes)
        if target.mapped:
            self.device.wait_idle()                 # nothing that still runs may read or write these bytes
            target.view[offset:offset + data.nbytes] = data
            return
        for start in range(0, data.nbytes, PIECE_BYTES):
            piece = data[start:start + PIECE_BYTES]
            self.buffer().view[:piece.nbytes] = piece
            self._copy(Span(self.buffer().address, piece.nbytes), Span(address + start, piece.nbytes), "upload")

    def download(self, address: int, nbytes: int) -> np.ndarray:
        """Reads device memory into a new uint8 array."""
        import numpy as np
        out = np.empty(nbytes, np.uint8)
        if not nbytes:
            return out
        source, offset = self.device.memory.find(address, nbytes)
        if source.mapped:
            self.device.wait_idle()
            out[:] = source.view[offset:offset + nbytes]
            return out
        for start in range(0, nbytes, PIECE_BYTES):
            size = min(PIECE_BYTES, nbytes - start)
            self._copy(Span(address + start, size), Span(self.buffer().address, size), "download")
            out[start:start + size] = self.buffer().view[:size]
        return out

    def clear(self, allocation: Allocation) -> None:
        """Zeroes an allocation that is not mapped."""
        self.device.execute([Fill(Span(allocation.address, allocation.nbytes))], label=f"clear {allocation.label}")

    def _copy(self, source: Span, target: Span, label: str) -> None:
        self.device.execute([Copy(source, target)], label=label)
