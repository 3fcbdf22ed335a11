"""What is told about the jobs of a sweep: a row each, kept beside the frozen settings, and the table of them."""
from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.files import write_json
from pipelines.progress import Progress, shown
from pipelines.run_directory import read_manifest

FIGURES = ("validation_loss", "loss", "perplexity")          # what the table shows of a run, where a stage tells it


@dataclass(frozen=True)
class Outcome:
    """How a job ended: in words, as an exit status, and where its run is."""

    status: str
    exit: int
    path: Path | None
    tries: int = 1


def row_of(outcome: Outcome, words: Sequence[str], number: int) -> dict:
    """A row of the table: job, settings, status, figures, directory."""
    stages = read_manifest(outcome.path).get("stages", {}) if outcome.path else {}
    facts = {name: value for stage in stages.values() for name, value in stage.get("facts", {}).items() if name in FIGURES}
    seconds = sum(stage.get("seconds", 0) for stage in stages.values())
    return {"job": number, "overrides": list(words), "status": outcome.status, "exit": outcome.exit, "seconds": seconds,
            "figures": facts, "run": str(outcome.path) if outcome.path else None, "tries": outcome.tries}


def save_row(folder: Path, row: dict) -> None:
    """Keeps the row of a job that has ended."""
    (folder / "jobs").mkdir(exist_ok=True)
    write_json(folder / "jobs" / f"{row['job']:04d}.json", row)


def drop_row(folder: Path, number: int) -> None:
    """Forgets the row of a job that is started again."""
    (folder / "jobs" / f"{number:04d}.json").unlink(missing_ok=True)


def read_rows(folder: Path) -> list[dict]:
    """Rows of all jobs that have ended, in order."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((folder / "jobs").glob("*.json"))]


def read_row(folder: Path, number: int) -> dict | None:
    """The row of one job, or None while it has not ended."""
    path = folder / "jobs" / f"{number:04d}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def table_of(rows: Sequence[dict], swept: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines: what was swept, how it ended, the figures with the best value marked."""
    figures = [name for name in FIGURES if any(name in row["figures"] for row in rows)]
    best = {name: min(row["figures"][name] for row in rows if name in row["figures"]) for name in figures}
    lines = [[str(row["job"]), *(value_of(row, key) for key in swept), row["status"],
              *(figure(row, name, best[name], len(rows)) for name in figures), row["run"] or ""] for row in rows]
    return ["job", *swept, "status", *(name.replace("_", " ") for name in figures), "run"], lines


def figure(row: dict, name: str, best: float, count: int) -> str:
    """A number of one row; the lowest of several has a star."""
    value = row["figures"].get(name)
    return "" if value is None else shown(value) + (" *" if value == best and count > 1 else "")


def value_of(row: dict, key: str) -> str:
    """What a row says about one setting."""
    given = dict(word.lstrip("+").split("=", 1) for word in row["overrides"] if "=" in word)
    return given.get(key, "")


def print_table(rows: Sequence[dict], swept: Sequence[str], took: str) -> None:
    """The closing table."""
    Progress().table(f"{len(rows)} job{'s' if len(rows) != 1 else ''}, {took}", *table_of(rows, swept))
