"""Batches by step number: any step can be asked for at any time, so resuming needs nothing but the number."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hierarchos.data.options import BatchOptions
from hierarchos.data.packing import RowPlan, plan_rows
from hierarchos.data.token_file import TokenFile
from hierarchos.data.tokens import UNTRAINED
from hierarchos.errors import UserError


class Batch(dict):
    """Arrays [B, T]: ids, targets, positions, segments (int32) and token_weights (float32).

    `targets[b, t]` is the id that follows position t, or -100 where nothing is trained; `segments` numbers the documents of a row
    from 1, padding is 0; `positions` begin at 0 in each. `trained_tokens` counts targets, `weight_sum` adds their weights: a loss is
    normalised by the sum over all batches of an optimizer step.
    """

    trained_tokens: int
    weight_sum: float


class BatchStream:
    """The batches of all epochs over one token file. The last batch of an epoch is filled up with rows of padding."""

    def __init__(self, file: TokenFile, options: BatchOptions):
        self.file, self.options = file, options
        self.plan: RowPlan = plan_rows(file, options.sequence_length, options.layout)
        if not len(self.plan):
            raise UserError("there is no token to train", hint=f"{len(file)} documents with {len(file.ids)} tokens")
        self._lengths = self.plan.row_lengths
        self._order: tuple[int, np.ndarray] = (-1, np.zeros(0, np.int64))

    def __len__(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.plan) // self.options.batch_size)

    def epoch_of(self, step: int) -> int:
        return step // len(self)

    def rows_of(self, step: int) -> np.ndarray:
        """Rows of the batch of this step, int64, at most batch_size."""
        epoch, index = divmod(step, len(self))
        size = self.options.batch_size
        return self._epoch_order(epoch)[index * size : (index + 1) * size]

    def batch(self, step: int) -> Batch:
        """The batch of step 0, 1, 2, ...; the same for the same file, options and step, always."""
        rows = self.rows_of(step)
        return assemble(self.file, self.plan, rows, self.options.batch_size, self._length_for(rows))

    def iterate(self, start: int = 0) -> Iterator[Batch]:
        """Batches from step `start` on, without end."""
        step = start
        while True:
            yield self.batch(step)
            step += 1

    def epoch(self, number: int = 0) -> Iterator[Batch]:
        """The batches of one epoch, for evaluation."""
        for index in range(len(self)):
            yield self.batch(number * len(self) + index)

    def longest_batch(self) -> Batch:
        """The fullest rows together, in the largest shape that any step has: what fits this fits every step."""
        rows = np.argsort(-self._lengths, kind="stable")[: self.options.batch_size]
        return assemble(self.file, self.plan, rows, self.options.batch_size, self._length_for(rows))

    def shapes(self) -> list[tuple[int, int]]:
        """Shapes [B, T] that can occur, largest first: known before the first step."""
        if not self._varies:
            return [(self.options.batch_size, self.options.sequence_length)]
        return sorted({(self.options.batch_size, self._rounded(int(length))) for length in self._lengths}, reverse=True)

    @property
    def _varies(self) -> bool:
        return self.options.layout == "pad" and self.options.pad_to == "longest"

    def _length_for(self, rows: np.ndarray) -> int:
        return self._rounded(int(self._lengths[rows].max())) if self._varies else self.options.sequence_length

    def _rounded(self, length: int) -> int:
        multiple = self.options.pad_multiple
        return min(-(-length // multiple) * multiple, self.options.sequence_length)

    def _epoch_order(self, epoch: int) -> np.ndarray:
        if self._order[0] != epoch:
            count = len(self.plan)
            order = permutation(count, self.options.seed, epoch) if self.options.shuffle else np.arange(count)
            self._order = epoch, order
        return self._order[1]


def assemble(file: TokenFile, plan: RowPlan, rows: np.ndarray, batch_size: int, length: int) -> Batch:
    """Gathers the rows' pieces into arrays [batch_size, length]."""
    pieces, row_of_piece = _ranges(plan.first_piece[rows], plan.first_piece[rows + 1])
    sizes = plan.length[pieces]
    before = np.cumsum(sizes) - sizes  # inputs of all pieces before this one
    first_of_row = np.concatenate([[0], np.cumsum(np.bincount(row_of_piece, minlength=len(rows)))[:-1]])
    in_row = before - before[first_of_row][row_of_piece]
    position = np.arange(int(sizes.sum())) - np.repeat(before, sizes)
    source = np.repeat(plan.start[pieces], sizes) + position
    place = np.repeat(row_of_piece * length + in_row, sizes) + position
    segment = np.repeat(np.arange(len(pieces)) - first_of_row[row_of_piece] + 1, sizes)
    following = source + 1
    trained = file.targets[following]
    weights = trained.astype(np.float32) if file.weights is None else file.weights[following] * trained

    def spread(values: np.ndarray, fill: int, dtype: type) -> np.ndarray:
        flat = np.full(batch_size * length, fill, dtype)
        flat[place] = values
        return flat.reshape(batch_size, length)

    batch = Batch(
        ids=spread(file.ids[source], 0, np.int32),
        targets=spread(np.where(trained, file.ids[following], UNTRAINED), UNTRAINED, np.int32),
        positions=spread(position, 0, np.int32),
        segments=spread(segment, 0, np.int32),
        token_weights=spread(weights, 0, np.float32),
    )
    batch.trained_tokens = int(trained.sum())
    batch.weight_sum = float(weights.sum(dtype=np.float64))
    return batch


def _ranges(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All integers of the ranges [first, last) one after another, and which range each is from."""
    counts = last - first
    owner = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return first[owner] + within, owner


def permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    """An order of `count` rows from (seed, epoch) alone: rows sorted by a hash of their number. No state, no library's generator."""
    salt = mixed(mixed(np.array([seed & (2**64 - 1)], np.uint64)) ^ np.uint64(epoch))
    return np.argsort(mixed(np.arange(count, dtype=np.uint64) ^ salt), kind="stable")


def mixed(values: np.ndarray) -> np.ndarray:
    """SplitMix64's output function (Steele, Lea and Flood 2014): uint64 to uint64, a bijection."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
