"""usage: hierarchos rerun RUN [--tolerance X] [device=SELECT]

Repeats a run from its directory, all stages anew, with the commits that it got from the Hub, and compares the results: on the same
device and driver every bit of the losses, weights and texts; on another one the losses, which may differ by 0.001 of their value
(--tolerance). The repeated run has a directory of its own. Status 3 where something differs.
"""
from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

from hierarchos.errors import UserError, nearest
from pipelines import exits
from pipelines.progress import Progress


def run(words: list[str]) -> int:
    """Repeats and compares."""
    from pipelines.repeat import TOLERANCE

    path, tolerance, device = understood(words, TOLERANCE)
    exits.stop_on_terminate()
    return rerun(path, tolerance, device)


def understood(words: list[str], usual: float) -> tuple[Path, float, str | None]:
    """The run, the tolerance, and the device where one is given."""
    rest, tolerance, device = [], usual, None
    pending = iter(words)
    for word in pending:
        if word.partition("=")[0] == "--tolerance":
            tolerance = number(word.partition("=")[2] or next(pending, ""))
        elif word.startswith(("device=", "device.select=")):
            device = word.partition("=")[2]
        else:
            rest.append(word)
    if len(rest) != 1 or rest[0].startswith("-"):
        raise UserError("which run?" if not rest else f"{rest[-1]} is not understood", where="command line",
                        command="hierarchos rerun outputs/train/DATE_TIME_ID", outcome=None)
    return run_directory(rest[0]), tolerance, device


def number(text: str) -> float:
    """A tolerance."""
    try:
        tolerance = float(text)
    except ValueError:
        tolerance = math.nan
    if not 0 <= tolerance < math.inf:
        raise UserError(f"--tolerance takes a number from 0 on, not {text or 'nothing'}", where="command line", command="--tolerance 1e-3")
    return tolerance


def run_directory(word: str) -> Path:
    """A run directory that is there; UserError with the nearest one."""
    path = Path(word).expanduser()
    if not (path / "run.json").is_file():
        beside = [str(other) for other in path.parent.glob("*") if (other / "run.json").is_file()]
        raise UserError(f"{word} is not a run directory", where="command line", nearest=nearest(word, beside, 0.7),
                        hint=f"it has no run.json; {runs_text(beside)}", outcome="nothing was started")
    return path


def runs_text(beside: list[str]) -> str:
    """What run directories there are beside the word that was given."""
    if not beside:
        return "runs are the folders in outputs/PIPELINE"
    return "the newest here is " + max(beside, key=lambda one: (Path(one) / "run.json").stat().st_mtime)


def rerun(path: Path, tolerance: float, device: str | None) -> int:
    """One repetition."""
    from pipelines import execute, repeat
    from pipelines.run_directory import read_manifest, read_overrides
    from pipelines.saved import pinned, saved_config

    manifest, first, progress = read_manifest(path), path.resolve(), Progress()
    if manifest["status"] != "done":
        raise UserError(f"{path} is {manifest['status']}, so there is nothing to compare with", where="command line",
                        command=f"hierarchos resume {path}")
    config, notes = saved_config(first)
    for note in notes:
        progress.line(f"note: {note}")
    go_to(manifest.get("folder"), progress)
    config = pinned(config, manifest)
    config = replace(config, run=replace(config.run, dir=None, resume=None, force=[]), export=replace(config.export, path=None))
    if device is not None:
        config = replace(config, device=replace(config.device, select=device))
    job = execute.prepare_saved(config)
    job.anew, job.words = True, read_overrides(first)
    made = execute.run(job).path
    found = repeat.compare(first, made, tolerance)
    progress.line("\n".join([f"rerun of {path}: {'the same' if found.passed else 'NOT the same'}", *found.lines()]))
    return exits.DONE if found.passed else exits.FAILED


def go_to(folder: str | None, progress: Progress) -> None:
    """Relative paths of a run are those of the folder where it was started."""
    if folder is not None and Path(folder).is_dir() and Path(folder).resolve() != Path.cwd().resolve():
        progress.line(f"in {folder}, where the run was started")
        os.chdir(folder)
