"""Faults that tests plant: the n-th submission loses the device, the n-th allocation finds no memory."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FailSubmit:
    """The device is lost at the n-th submission from now (1 = the next)."""

    n: int = 1


@dataclass(frozen=True)
class FailAllocation:
    """The n-th allocation from now fails for lack of memory (1 = the next)."""

    n: int = 1


class Faults:
    """Counts submissions and allocations, and says when one has to fail."""

    def __init__(self, *faults: FailSubmit | FailAllocation):
        self.pending = {FailSubmit: [], FailAllocation: []}
        self.inject(*faults)

    def inject(self, *faults: FailSubmit | FailAllocation) -> None:
        for fault in faults:
            self.pending[type(fault)].append(fault.n)

    def due(self, kind: type) -> bool:
        """Counts one event of `kind`; True when a planted fault is due at it."""
        counts = self.pending[kind]
        if not counts:
            return False
        self.pending[kind] = [n - 1 for n in counts if n > 1]
        return 1 in counts
