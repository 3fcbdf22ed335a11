"""Runs side by side: the settings that differ, the figures, the best one, and seeds as mean and spread."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.reading.runs import FIGURES, Run, as_yaml

SEED = "run.seed"
GROUPS = ("model", "data", "tokenizer", "peft", "precision")          # whose files a sweep may vary
ABSENT = "-"


@dataclass(frozen=True)
class Figure:
    """A figure of one or several runs. spread: sample standard deviation, None for one run."""

    mean: float
    spread: float | None
    count: int


@dataclass(frozen=True)
class Line:
    """One line: runs that differ in their seed at most."""

    runs: tuple[Run, ...]
    settings: dict[str, str]
    figures: dict[str, Figure]

    @property
    def seeds(self) -> list:
        return [run.seed for run in self.runs]

    @property
    def status(self) -> str:
        return ", ".join(dict.fromkeys(run.status for run in self.runs))


@dataclass(frozen=True)
class Comparison:
    """keys: settings that differ, without the seed. best: for each figure the number of the line that has the best value."""

    keys: list[str]
    figures: list[str]
    lines: list[Line]
    best: dict[str, int]

    @property
    def has_seeds(self) -> bool:
        return len({run.seed for line in self.lines for run in line.runs}) > 1


def compare_runs(runs: Sequence[Run]) -> Comparison:
    """Groups runs by all settings but the seed."""
    keys = differing(runs)
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(setting(run, key) for key in keys), []).append(run)
    lines = [Line(tuple(group), dict(zip(keys, values, strict=True)), figures_of(group)) for values, group in groups.items()]
    names = [name for name in FIGURES if any(name in line.figures for line in lines)]
    best = {name: found for name in names if (found := best_line(lines, name)) is not None}
    return Comparison(keys, names, lines, best)


def differing(runs: Sequence[Run]) -> list[str]:
    """Settings that are not the same everywhere, in their order; a group whose file was swept stands for what it holds."""
    known = list(dict.fromkeys(key for run in runs for key in run.values))
    chosen = [group for group in GROUPS if runs and all(group in run.words for run in runs)]
    found = [key for key in known if key != SEED and len({setting(run, key) for run in runs}) > 1]
    ours = [key for key in found if key.partition(".")[0] not in chosen or any(key in run.words for run in runs)]
    return [group for group in chosen if len({run.words[group] for run in runs}) > 1] + ours


def setting(run: Run, key: str) -> str:
    """One setting of a run as text."""
    if key in GROUPS and key in run.words:
        return run.words[key]
    return as_yaml(run.values[key]) if key in run.values else ABSENT


def figures_of(runs: Sequence[Run]) -> dict[str, Figure]:
    """Mean and sample standard deviation of each figure over runs that have it."""
    found = {}
    for name in FIGURES:
        values = [run.figures[name] for run in runs if name in run.figures]
        if values:
            mean = math.fsum(values) / len(values)
            spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)) if len(values) > 1 else None
            found[name] = Figure(mean, spread, len(values))
    return found


def best_line(lines: Sequence[Line], name: str) -> int | None:
    """The line with the best mean; None where nothing is better than anything."""
    means = {number: line.figures[name].mean for number, line in enumerate(lines)
             if name in line.figures and math.isfinite(line.figures[name].mean)}
    if FIGURES[name] is None or len(set(means.values())) < 2:
        return None
    return (min if FIGURES[name] == "least" else max)(means, key=means.get)
