"""Persistent tensors on a device: parameters, gradients, moments, caches."""
from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.scratch import Scratch
from hierarchos.graph.tensor import NUMPY_NAME, Spec
from hierarchos.vulkan.commands import Fill, Span

if TYPE_CHECKING:
    import numpy as np


class StateStore:
    """Named tensors in arenas, one allocation each, zero at first (the padding between tensors always).

    Every tensor starts at a multiple of 256 bytes (64 floats). The name of an arena is the name of all of it as one flat f32
    tensor. `mirror` gives a second arena the offsets of the first, so that element i of "gradients" belongs to element i of
    "parameters"; its tensors are called "gradients/NAME".
    """

    def __init__(self, device):
        self.device, self.layout, self.allocations = device, StoreLayout(), {}
        self.scratch = Scratch(device)              # activations of the programs over this store

    def allocate(self, arena: str, specs: Mapping[str, Spec]) -> None:
        """Makes an arena of zeros that holds `specs` in their order."""
        self.layout.allocate(arena, specs)
        self._allocate(arena)

    def mirror(self, arena: str, of: str) -> None:
        """Makes an arena of zeros laid out as arena `of`."""
        self.layout.mirror(arena, of)
        self._allocate(arena)

    def _allocate(self, arena: str) -> None:
        nbytes = self.layout.arenas[arena]
        try:
            self.allocations[arena] = self.device.allocate(max(nbytes, 256), arena)
        except Exception:
            self.layout.remove(arena)
            raise

    def free(self, arena: str) -> None:
        """Gives the memory of an arena back; programs compiled over it must not run any more."""
        self.layout.remove(arena)
        self.allocations.pop(arena).free()

    def address(self, name: str) -> int:
        """Device address of a tensor's first byte."""
        place = self.layout.find(name)
        return self.allocations[place.arena].address + place.offset

    def zero(self, name: str) -> None:
        """Fills a tensor (or a whole arena) with zeros."""
        nbytes = self.layout.find(name).spec.nbytes
        if nbytes:
            self.device.execute([Fill(Span(self.address(name), nbytes))], f"zero {name}")

    def write(self, name: str, array: np.ndarray) -> None:
        """Stores an array; shape and kind of number must be those of the tensor."""
        import numpy as np
        spec = self.layout.find(name).spec
        array = np.asarray(array)
        if tuple(array.shape) != spec.shape or (array.dtype.kind == "f") != (spec.dtype == "f32"):
            raise ValueError(f"{name} is {spec.dtype}{list(spec.shape)}; got {array.dtype}{list(array.shape)}, nothing was written")
        if array.size:
            self.device.upload(self.address(name), np.ascontiguousarray(array, NUMPY_NAME[spec.dtype]))

    def read(self, name: str) -> np.ndarray:
        """A copy of a tensor."""
        import numpy as np
        spec = self.layout.find(name).spec
        raw = self.device.download(self.address(name), spec.nbytes) if spec.nbytes else b""
        return np.frombuffer(bytes(raw), NUMPY_NAME[spec.dtype]).reshape(spec.shape).copy()

    def digest(self, *arenas: str) -> str:
        """SHA-256 of the bytes of arenas (all by default), in the order they were made: equal states, equal digests."""
        total = sha256()
        for arena in arenas or self.layout.arenas:
            total.update(self.read(arena).tobytes())
        return total.hexdigest()
