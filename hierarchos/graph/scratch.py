"""One set of activation memory for all programs over a store: they run one after the other and keep nothing in it."""
from __future__ import annotations


class Scratch:
    """Blocks as large as the most demanding user needs. `version` changes when they move; users must then record again."""

    def __init__(self, device):
        self.device, self.version = device, 0
        self.blocks: list = []
        self.users: dict[object, tuple[int, ...]] = {}             # bytes of each block that a user needs

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.blocks)

    def reserve(self, user: object, sizes: tuple[int, ...], label: str) -> None:
        """Makes the blocks at least as large as `sizes`. Raises OutOfMemory and leaves the other users' memory as large as it was."""
        self.users[user] = sizes
        for index, nbytes in enumerate(sizes):
            if index == len(self.blocks):
                self.blocks.append(self._allocate(user, nbytes, label))
            elif nbytes > self.blocks[index].nbytes:
                self._grow(user, index, nbytes, label)

    def _allocate(self, user: object, nbytes: int, label: str):
        try:
            return self.device.allocate(nbytes, f"{label} activations")
        except BaseException:
            del self.users[user]
            raise

    def _grow(self, user: object, index: int, nbytes: int, label: str) -> None:
        """Frees before it allocates, so that both never need to fit."""
        before = self.blocks[index].nbytes
        self.device.wait_idle()
        self.blocks[index].free()
        self.version += 1
        try:
            self.blocks[index] = self._allocate(user, nbytes, label)
        except BaseException:
            self.blocks[index] = self.device.allocate(before, "activations")
            raise

    def release(self, user: object) -> None:
        """Forgets a user; the memory goes with the last one."""
        self.users.pop(user, None)
        if not self.users:
            for block in self.blocks:
                block.free()
            self.blocks = []
