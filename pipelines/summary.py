"""The closing table of a run: stages, what they took, and the numbers that people look for."""
from __future__ import annotations

from pathlib import Path

from pipelines.progress import Progress, duration, shown
from pipelines.run_directory import RunDirectory

SHOWN = 4          # facts of a stage in the table; run.json has all


def closing(progress: Progress, run: RunDirectory) -> None:
    """Prints the table and where the results are."""
    rows = [[name, "cached" if stage.get("cached") else stage["status"], duration(stage.get("seconds", 0)), facts_text(stage)]
            for name, stage in run.manifest["stages"].items()]
    progress.table("", ["stage", "status", "time", "result"], rows)
    if folder := model_folder(run):
        progress.line(f"model: {folder}")
    progress.line(f"everything about this run: {run.path}")


def model_folder(run: RunDirectory) -> Path | None:
    """Where the run's package is: in its directory, or where export.path said."""
    told = [stage.get("facts", {}).get("folder") for stage in run.manifest["stages"].values()]
    folders = [Path(folder) for folder in told if folder] or [run.path / "model"]
    return folders[-1] if folders[-1].is_dir() else None


def facts_text(stage: dict) -> str:
    """Numbers and short texts among a stage's facts."""
    facts = [(name, value) for name, value in stage.get("facts", {}).items()
             if isinstance(value, (int, float)) or (isinstance(value, str) and len(value) < 24)]
    return ", ".join(f"{name.replace('_', ' ')} {' '.join(shown(value).split())}" for name, value in facts[:SHOWN])
