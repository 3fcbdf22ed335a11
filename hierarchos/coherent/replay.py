"""Programs of one token replayed over the records of a tape: commands are made for tokens 0 and 1, and their addresses extrapolated."""
from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from hierarchos.graph.layout import Location, StoreLayout
from hierarchos.graph.memory import aligned
from hierarchos.graph.plan import plan_program
from hierarchos.graph.profile import profile_of
from hierarchos.graph.program import Program
from hierarchos.graph.tensor import Graph
from hierarchos.models.coherent_v9.tape import Tape
from hierarchos.vulkan.commands import Command, Copy, Dispatch, Fill, Span

TAPE = "tape"


class Part(Program):
    """A program whose commands become part of a longer recording."""

    def _record(self) -> None:
        self.version = self.scratch.version

    def write(self, feeds) -> None:
        """Writes its inputs; what they replace must not be in use any more."""
        self._write_inputs(feeds)

    def results(self) -> dict:
        """Copies of its outputs, once the recording has ended."""
        return {name: view.copy() for name, view in self._output_views.items()}


def part(graph: Graph, device, store, label: str) -> Part:
    """Plans a graph over a store and allocates its memory; nothing is recorded."""
    return Part(plan_program(graph, profile_of(device), store.layout, device.info.max_allocation or None), device, store, False, label)


class RecordStore:
    """A store in which `NAME@0` and `NAME@1` are the records of token `token` and the one after it."""

    def __init__(self, store, tape: Tape):
        self.store, self.token = store, 0
        self.scratch, self.allocations = store.scratch, store.allocations
        self.layout = StoreLayout(dict(store.layout.locations), dict(store.layout.arenas))
        self.strides = {}
        for name, spec in tape.specs.items():
            whole = store.layout.find(f"{TAPE}/{name}")
            for k in range(2 if name in tape.carried else 1):
                self.layout.locations[f"{name}@{k}"] = Location(whole.arena, whole.offset + k * spec.nbytes, spec)
                self.strides[f"{name}@{k}"] = spec.nbytes

    def address(self, name: str) -> int:
        if name not in self.strides:
            return self.store.address(name)
        place = self.layout.find(name)
        return self.allocations[place.arena].address + place.offset + self.token * self.strides[name]


def tape_bytes(tape: Tape, length: int) -> int:
    """Memory of the records of `length` tokens."""
    return sum(aligned(tape.whole(name, length).nbytes) for name in tape.specs)


@dataclass(frozen=True)
class Moving:
    """A command of token 0, and how far its addresses move from one token to the next."""

    command: Command
    push: tuple[tuple[int, int, int], ...]          # byte offset, address, distance
    reads: tuple[tuple[Span, int], ...]
    writes: tuple[tuple[Span, int], ...]

    def at(self, token: int) -> Command:
        """The same command for another token."""
        command = self.command
        if not isinstance(command, Dispatch):
            return moved(command, [distance for _, distance in (*self.reads, *self.writes)], token)
        push = bytearray(command.push)
        for offset, address, distance in self.push:
            struct.pack_into("<Q", push, offset, address + token * distance)
        return Dispatch(command.shader, command.constants, bytes(push), command.groups, spans(self.reads, token), spans(self.writes, token),
                        command.label, command.operations, command.bytes_moved)


def spans(moving: tuple[tuple[Span, int], ...], token: int) -> tuple[Span, ...]:
    return tuple(replace(span, address=span.address + token * distance) if distance else span for span, distance in moving)


def moved(command: Command, distances: list[int], token: int) -> Command:
    """A copy or a fill of another token."""
    if isinstance(command, Fill):
        return replace(command, span=shifted(command.span, distances[0] * token))
    return replace(command, source=shifted(command.source, distances[0] * token), target=shifted(command.target, distances[1] * token))


def shifted(span: Span, distance: int) -> Span:
    return replace(span, address=span.address + distance)


def moving_commands(part: Part) -> list[Moving]:
    """The commands of a token's program, ready for any token."""
    store = part.store
    store.token = 0
    first = part.commands()
    store.token = 1
    second = part.commands()
    store.token = 0
    return [_compare(a, b) for a, b in zip(first, second, strict=True)]


def _compare(a: Command, b: Command) -> Moving:
    if isinstance(a, Copy):
        return Moving(a, (), ((a.source, b.source.address - a.source.address),), ((a.target, b.target.address - a.target.address),))
    if isinstance(a, Fill):
        return Moving(a, (), (), ((a.span, b.span.address - a.span.address),))
    words = [(offset, *(struct.unpack_from("<Q", push, offset)[0] for push in (a.push, b.push))) for offset in range(0, len(a.push) - 7, 8)]
    push = tuple((offset, old, new - old) for offset, old, new in words if new != old)
    return Moving(a, push, _moves(a.reads, b.reads), _moves(a.writes, b.writes))


def _moves(before: tuple[Span, ...], after: tuple[Span, ...]) -> tuple[tuple[Span, int], ...]:
    return tuple((old, new.address - old.address) for old, new in zip(before, after, strict=True))
