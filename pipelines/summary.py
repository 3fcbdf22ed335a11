"""The closing table of a run: stages, what they took, and the numbers that people look for."""
from __future__ import annotations

from pipelines.progress import Progress, duration, shown
from pipelines.run_directory import RunDirectory

SHOWN = 4          # facts of a stage in the table; run.json has all


def closing(progress: Progress, run: RunDirectory) -> None:
    """Prints the table and where the results are."""
    rows = [[name, "cached" if stage.get("cached") else stage["status"], duration(stage.get("seconds", 0)), facts_text(stage)]
            for name, stage in run.manifest["stages"].items()]
    progress.table("", ["stage", "status", "time", "result"], rows)
    if (run.path / "model").is_dir():
        progress.line(f"model: {run.path / 'model'}")
    progress.line(f"everything about this run: {run.path}")


def facts_text(stage: dict) -> str:
    """Numbers and short texts among a stage's facts."""
    facts = [(name, value) for name, value in stage.get("facts", {}).items()
             if isinstance(value, (int, float)) or (isinstance(value, str) and len(value) < 24)]
    return ", ".join(f"{name.replace('_', ' ')} {' '.join(shown(value).split())}" for name, value in facts[:SHOWN])
