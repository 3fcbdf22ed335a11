"""Lays buffers with known lifetimes into as few bytes as the greedy best fit finds. Pure: knows sizes and times only."""
from __future__ import annotations

from dataclasses import dataclass

ALIGNMENT = 256                                     # bytes; covers every minimum alignment that devices report


@dataclass(frozen=True)
class Interval:
    """A buffer of `nbytes` that holds something from step `start` to step `end`, both included."""

    nbytes: int
    start: int
    end: int


@dataclass(frozen=True)
class Layout:
    """Where each interval lies, (block, byte offset), in the order given; and the bytes of each block."""

    places: tuple[tuple[int, int], ...]
    blocks: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return sum(self.blocks)


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def lay_out(intervals: list[Interval], block_bytes: int | None = None) -> Layout:
    """Offsets such that intervals that live at the same time share no byte; no block is larger than `block_bytes`.

    Largest first; each goes into the tightest gap between those already placed that live at the same time.
    Raises ValueError when one interval alone exceeds a block.
    """
    order = sorted(range(len(intervals)), key=lambda i: (-intervals[i].nbytes, intervals[i].start, i))
    blocks: list[_Block] = []
    places: list[tuple[int, int]] = [(0, 0)] * len(intervals)
    for i in order:
        places[i] = _place(intervals[i], blocks, block_bytes)
    return Layout(tuple(places), tuple(block.nbytes for block in blocks))


def _place(interval: Interval, blocks: list[_Block], limit: int | None) -> tuple[int, int]:
    size = aligned(interval.nbytes)
    if limit is not None and size > limit:
        raise ValueError(f"one buffer of {size} bytes does not fit into a block of {limit} bytes")
    for number, block in enumerate(blocks):
        offset = block.gap(interval, size)
        if limit is None or offset + size <= limit:
            return number, block.put(interval, offset, size)
    blocks.append(_Block())
    return len(blocks) - 1, blocks[-1].put(interval, 0, size)


class _Block:
    """One allocation in the making: what lies where, and when."""

    def __init__(self):
        self.placed: list[tuple[int, int, int, int]] = []       # (offset, end of bytes, start, end of life), by offset
        self.nbytes = 0

    def gap(self, interval: Interval, size: int) -> int:
        """Offset of the tightest gap that holds `size` bytes during the interval, else the end of what is in the way."""
        best, best_room, reached = None, None, 0
        for offset, stop, start, end in self.placed:
            if end < interval.start or start > interval.end:
                continue
            room = offset - reached
            if room >= size and (best is None or room < best_room):
                best, best_room = reached, room
            reached = max(reached, stop)
        return reached if best is None else best

    def put(self, interval: Interval, offset: int, size: int) -> int:
        from bisect import insort
        insort(self.placed, (offset, offset + size, interval.start, interval.end))
        self.nbytes = max(self.nbytes, offset + size)
        return offset
