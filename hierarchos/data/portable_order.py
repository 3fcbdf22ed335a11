"""An order of rows that every implementation of coherent-v9 draws alike, and batches of rows of like length."""

from __future__ import annotations

import numpy as np

from hierarchos.data.batches import BatchStream
from hierarchos.data.options import BatchOptions
from hierarchos.data.token_file import TokenFile

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


class Shuffler:
    """Fisher-Yates with SplitMix64, from (seed, epoch) alone; each list that is shuffled goes on with the same numbers."""

    def __init__(self, seed: int, epoch: int):
        self.state = (seed + epoch * GOLDEN) & MASK

    def next(self) -> int:
        self.state = (self.state + GOLDEN) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def shuffle(self, order: list) -> list:
        """In place; returns it."""
        for last in range(len(order) - 1, 0, -1):
            other = self.next() % (last + 1)
            order[last], order[other] = order[other], order[last]
        return order


def batches_of_like_length(order: list[int], lengths: np.ndarray, size: int, window: int, shuffler: Shuffler) -> list[list[int]]:
    """Windows of `window` rows sorted by length, longest first, cut into batches of `size`; then the batches are shuffled."""
    rows = []
    for start in range(0, len(order), window):
        rows += sorted(order[start : start + window], key=lambda row: -int(lengths[row]))
    return shuffler.shuffle([rows[start : start + size] for start in range(0, len(rows), size)])


class PortableStream(BatchStream):
    """Batches in the portable order. buckets: batches in a window of rows of like length; 0: rows stay as they were drawn."""

    def __init__(self, file: TokenFile, options: BatchOptions, buckets: int = 0):
        super().__init__(file, options)
        self.buckets = buckets
        self._drawn: tuple[int, list[list[int]]] = (-1, [])

    def rows_of(self, step: int) -> np.ndarray:
        """Rows of the batch of this step, int64, at most batch_size."""
        epoch, index = divmod(step, len(self))
        if self._drawn[0] != epoch:
            self._drawn = epoch, self._draw(epoch)
        return np.array(self._drawn[1][index], np.int64)

    def _draw(self, epoch: int) -> list[list[int]]:
        size, order, shuffler = self.options.batch_size, list(range(len(self.plan))), Shuffler(self.options.seed, epoch)
        if self.options.shuffle:
            shuffler.shuffle(order)
            if self.buckets:
                return batches_of_like_length(order, self._lengths, size, size * self.buckets, shuffler)
        return [order[start : start + size] for start in range(0, len(order), size)]
