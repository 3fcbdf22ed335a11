"""metrics.jsonl: one JSON object a line for each step and each evaluation, never lost and never doubled.

A line is written in one call and flushed. After a kill the last line may be cut; on resume everything after the
checkpoint's step is dropped, so the file of a resumed run has the lines of an unbroken one.
"""
from __future__ import annotations

import json
import os
from pathlib import Path

TIMING = ("seconds", "tokens_per_second")          # what differs between two runs of the same computation


class MetricsFile:
    """Appends rows to `path`; `keep_until` drops the rows of steps beyond the one that is resumed from."""

    def __init__(self, path: Path, keep_until: int | None = None):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if keep_until is not None and path.exists():
            kept = [row for row in read_metrics(path) if row["step"] <= keep_until]
            replace_text(path, "".join(json.dumps(row) + "\n" for row in kept))
        elif keep_until is None and path.exists():
            replace_text(path, "")
        self.file = path.open("a", encoding="utf-8")

    def write(self, **row) -> None:
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()

    def close(self) -> None:
        self.file.close()


def read_metrics(path: Path) -> list[dict]:
    """All complete rows of a metrics file; a last line that a kill cut short is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def without_timing(rows: list[dict]) -> list[dict]:
    """The part of metrics that two runs of the same computation share, bit for bit."""
    return [{key: value for key, value in row.items() if key not in TIMING} for row in rows]


def replace_text(path: Path, text: str) -> None:
    """Replaces a file's content as a whole: written aside, synced, renamed."""
    aside = path.with_name(path.name + ".partial")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
