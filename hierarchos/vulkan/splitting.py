"""Cuts a list of commands into parts of bounded device time, so that one submission never holds the device for long."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hierarchos.vulkan.commands import Command, Copy, Dispatch


@dataclass(frozen=True)
class Rates:
    """A slow device of a kind: what it does at least. operations and bytes a second; seconds a command."""

    operations: float
    bytes: float
    command: float


RATES = {"discrete": Rates(1e12, 5e10, 5e-6), "integrated": Rates(1e11, 1e10, 1e-5), "virtual": Rates(1e11, 1e10, 1e-5),
         "software": Rates(2e9, 2e9, 5e-5)}
SUBMIT_SECONDS = {"discrete": 0.05, "integrated": 0.05, "virtual": 0.05, "software": None}


def estimate(command: Command, rates: Rates) -> float:
    """Seconds that a command takes at most, by its own counts."""
    if isinstance(command, Dispatch):
        return rates.command + max(command.operations / rates.operations, command.bytes_moved / rates.bytes)
    moved = 2 * command.source.nbytes if isinstance(command, Copy) else command.span.nbytes
    return rates.command + moved / rates.bytes


def split(commands: Sequence[Command], rates: Rates, bound: float | None) -> list[range]:
    """Index ranges, in order, each estimated at no more than `bound` seconds (one command may exceed it alone)."""
    if bound is None or not commands:
        return [range(len(commands))]
    parts, start, total = [], 0, 0.0
    for i, command in enumerate(commands):
        seconds = estimate(command, rates)
        if i > start and total + seconds > bound:
            parts.append(range(start, i))
            start, total = i, 0.0
        total += seconds
    return [*parts, range(start, len(commands))]
