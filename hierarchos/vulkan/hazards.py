"""Where barriers go: before a command that touches memory which an unfinished earlier one wrote, or overwrites what it reads."""
from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from hierarchos.vulkan.commands import Command, Copy, Dispatch, Span


class Intervals:
    """A set of bytes, as sorted disjoint half-open ranges."""

    def __init__(self):
        self.starts: list[int] = []
        self.stops: list[int] = []

    def overlaps(self, span: Span) -> bool:
        """Whether any byte of `span` is in the set."""
        first = bisect_right(self.stops, span.address)          # first range that ends after the span begins
        return span.nbytes > 0 and first < len(self.starts) and self.starts[first] < span.address + span.nbytes

    def add(self, span: Span) -> None:
        """Adds the bytes of `span`, merging ranges that it touches."""
        if span.nbytes <= 0:
            return
        start, stop = span.address, span.address + span.nbytes
        first, last = bisect_left(self.stops, start), bisect_right(self.starts, stop)
        if first < last:
            start, stop = min(start, self.starts[first]), max(stop, self.stops[last - 1])
        self.starts[first:last], self.stops[first:last] = [start], [stop]

    def clear(self) -> None:
        self.starts.clear()
        self.stops.clear()


def touches(command: Command) -> tuple[Sequence[Span], Sequence[Span]]:
    """The spans that a command reads and those that it writes."""
    if isinstance(command, Dispatch):
        return command.reads, command.writes
    if isinstance(command, Copy):
        return (command.source,), (command.target,)
    return (), (command.span,)


class Touched:
    """Spans as a set of bytes; those with a pitch one by one, because columns side by side share no byte."""

    def __init__(self):
        self.whole, self.columns = Intervals(), []

    def overlaps(self, span: Span) -> bool:
        return self.whole.overlaps(span) or any(_cross(span, other) and not span.beside(other) for other in self.columns)

    def add(self, span: Span) -> None:
        if span.pitch:
            self.columns.append(span)
        else:
            self.whole.add(span)

    def clear(self) -> None:
        self.whole.clear()
        self.columns.clear()


def _cross(first: Span, second: Span) -> bool:
    """Whether the ranges from first to last byte overlap."""
    return (first.nbytes > 0 and second.nbytes > 0 and first.address < second.address + second.nbytes
            and second.address < first.address + first.nbytes)


class HazardTracker:
    """Remembers what was read and written since the last barrier."""

    def __init__(self):
        self.read, self.written = Touched(), Touched()

    def needs_barrier(self, command: Command) -> bool:
        """Whether `command` has to wait for an earlier one; afterwards it counts as issued."""
        reads, writes = touches(command)
        hazard = (any(self.written.overlaps(span) for span in reads)
                  or any(self.written.overlaps(span) or self.read.overlaps(span) for span in writes))
        if hazard:
            self.read.clear()
            self.written.clear()
        for span in reads:
            self.read.add(span)
        for span in writes:
            self.written.add(span)
        return hazard


def barriers_before(commands: Iterable[Command]) -> list[bool]:
    """For each command, whether a barrier is placed before it. One barrier ends all hazards with everything earlier."""
    tracker = HazardTracker()
    return [tracker.needs_barrier(command) for command in commands]
