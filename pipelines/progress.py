"""What a person sees while a run goes on: a bar on a terminal, a plain line every few seconds elsewhere."""
from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from typing import TextIO

PLAIN_SECONDS = 5.0          # between two lines of one stage when there is no terminal


class Progress:
    """Lines, one bar at a time, and a closing table.

    bar = progress.start("train", total=200); bar.update(7, loss=3.2, rate="1840 tokens/s"); bar.finish()
    """

    def __init__(self, out: TextIO | None = None, terminal: bool | None = None, clock: Callable[[], float] = time.monotonic):
        self.out = out or sys.stdout
        self.terminal = self.out.isatty() if terminal is None else terminal
        self.clock = clock
        self.bar: Bar | None = None

    def line(self, text: str) -> None:
        """One line, above the bar where there is one."""
        if self.bar is not None:
            self.bar.print(text)
        else:
            print(text, file=self.out, flush=True)

    def start(self, title: str, total: int | None, done: int = 0) -> Bar:
        """A bar of `total` units, `done` of them behind us already."""
        assert self.bar is None, "one bar at a time"
        self.bar = (TerminalBar if self.terminal else PlainBar)(self, title, total, done)
        return self.bar

    def table(self, title: str, headings: list[str], rows: list[list[str]]) -> None:
        """A table, its columns as wide as their longest text; on a terminal the last one is broken where it does not fit."""
        widths = [max(len(str(row[column])) for row in [headings, *rows]) for column in range(len(headings))]
        lines = [line for row in [headings, *rows] for line in self.table_row(row, widths)]
        self.line("\n".join([title, *(f"  {line}" for line in lines)]) if title else "\n".join(lines))

    def table_row(self, row: list[str], widths: list[int]) -> list[str]:
        """The lines of one row."""
        *cells, last = map(str, row)
        before = "".join(cell.ljust(width) + "  " for cell, width in zip(cells, widths, strict=False))
        room = shutil.get_terminal_size((10_000, 24)).columns - len(before) - 2
        parts = textwrap.wrap(last, room, break_on_hyphens=False) if room >= 20 else [last]
        first, *rest = parts or [""]
        return [f"{before}{first}".rstrip(), *(" " * len(before) + part for part in rest)]


class Bar:
    """A running bar; `update` takes the units done so far and figures to show."""

    def __init__(self, progress: Progress, title: str, total: int | None, done: int):
        self.progress, self.title, self.total = progress, title, total
        self.first, self.begun = done, progress.clock()

    def update(self, done: int, **figures: object) -> None:
        raise NotImplementedError

    def print(self, text: str) -> None:
        print(text, file=self.progress.out, flush=True)

    def finish(self) -> None:
        """Ends the bar."""
        self.progress.bar = None

    def remaining(self, done: int) -> str:
        """Time left at the pace so far, "" while unknown."""
        if self.total is None or done <= self.first:
            return ""
        return duration((self.progress.clock() - self.begun) / (done - self.first) * (self.total - done))


class PlainBar(Bar):
    """The first and last update, and one every few seconds between them."""

    def __init__(self, *arguments: object):
        super().__init__(*arguments)
        self.shown: float | None = None

    def update(self, done: int, **figures: object) -> None:
        now = self.progress.clock()
        if self.shown is not None and done != self.total and now - self.shown < PLAIN_SECONDS:
            return
        self.shown = now
        of = f"/{self.total}" if self.total else ""
        left = self.remaining(done)
        facts = [f"{name} {shown(value)}" for name, value in figures.items()] + ([f"{left} left"] if left and done != self.total else [])
        self.print(f"{self.title}  {done}{of}  {'  '.join(facts)}".rstrip())


class TerminalBar(Bar):
    """A bar drawn by rich."""

    def __init__(self, *arguments: object):
        super().__init__(*arguments)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[figures]}"),
                   TimeRemainingColumn(compact=True)]
        self.rich = RichProgress(*columns, console=Console(file=self.progress.out), transient=False)
        self.task = self.rich.add_task(self.title, total=self.total, completed=self.first, figures="")
        self.rich.start()

    def update(self, done: int, **figures: object) -> None:
        text = "  ".join(f"{name} {shown(value)}" for name, value in figures.items())
        self.rich.update(self.task, completed=done, figures=text)

    def print(self, text: str) -> None:
        self.rich.console.print(text, markup=False, highlight=False)

    def finish(self) -> None:
        self.rich.stop()
        super().finish()


def shown(value: object) -> str:
    """A figure in few characters."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """12 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
