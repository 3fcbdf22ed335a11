"""Finding runs to read: single directories, a sweep, or a folder of runs; and what each of them told."""
from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from hierarchos.errors import UserError, nearest
from pipelines.hashing import flatten
from pipelines.manifest import comparable

FIGURES = {"validation_loss": "least", "best_loss": "least", "loss": "least", "evaluation_loss": "least", "perplexity": "least",
           "accuracy": "most", "tokens_per_second": "most", "peak_bytes": None, "seconds": None}
"""Figures in the order of a table, and which of them is best; None: no value is called best."""


@dataclass(frozen=True)
class Run:
    """A run directory as it is read. values: settings that can change a result, flat; words: what a sweep typed for it."""

    path: Path
    manifest: dict
    values: dict[str, object]
    words: dict[str, str] = field(default_factory=dict)

    @property
    def seed(self) -> object:
        return self.values.get("run.seed")

    @property
    def status(self) -> str:
        return self.manifest["status"]

    @property
    def figures(self) -> dict[str, float]:
        """The numbers among the facts of all stages that have a place in a table."""
        found: dict[str, float] = {}
        for name, stage in self.manifest.get("stages", {}).items():
            for fact, value in stage.get("facts", {}).items():
                called = "evaluation_loss" if (name, fact) == ("evaluate", "loss") else fact
                if called in FIGURES and isinstance(value, (int, float)) and not isinstance(value, bool):
                    found[called] = value
        return found | {"seconds": self.manifest["seconds"]} if "seconds" in self.manifest else found


def read_run(path: Path, words: Sequence[str] = ()) -> Run:
    """One run directory; UserError where its files cannot be read."""
    from pipelines.run_directory import read_config, read_manifest, status_of

    manifest = read_manifest(path) | {"status": status_of(path)}
    given = dict(word.lstrip("+").split("=", 1) for word in words if "=" in word)
    return Run(path, manifest, settings_of(read_config(path)), given)


def settings_of(config: dict) -> dict[str, object]:
    """All settings that can change a result, as {"train.steps": 200}."""
    return flatten(comparable({**config, "run": config.get("run") or {}}))


def is_run(path: Path) -> bool:
    return (path / "run.json").is_file()


def is_sweep(path: Path) -> bool:
    return (path / "jobs").is_dir() and not is_run(path)


def find_runs(words: Sequence[str]) -> list[Run]:
    """Runs of all directories that are named, each once; UserError where one is neither a run, a sweep, nor a folder of runs."""
    found = [run for word in words for run in runs_of(word)]
    return list({run.path.resolve(): run for run in found}.values())


def runs_of(word: str) -> list[Run]:
    """Runs of one word of the command line."""
    path = Path(word).expanduser()
    if is_run(path):
        return [read_run(path)]
    if is_sweep(path):
        return sweep_runs(path)
    inside = sorted(below.parent for below in path.glob("*/run.json"))
    if not inside:
        raise not_readable(word, path)
    return [read_run(below) for below in inside]


def sweep_runs(folder: Path) -> list[Run]:
    """Runs of the jobs of a sweep that have ended, in order."""
    from pipelines.sweeping.rows import read_rows

    rows = [row for row in read_rows(folder) if row.get("run")]
    found = [(row, place) for row in rows if (place := place_of(folder, row["run"])) is not None]
    return [read_run(place, row["overrides"]) for row, place in found]


def place_of(folder: Path, noted: str) -> Path | None:
    """A run as a sweep noted it: relative to where it was started, else beside the folder of sweeps."""
    path = Path(noted)
    beside = folder.resolve().parents[1] / path.parent.name / path.name
    return next((one for one in (path, beside) if is_run(one)), None)


def swept_keys(folder: Path) -> list[str]:
    """The settings that a sweep varies, as they were typed; none where it did not write them down."""
    try:
        return json.loads((folder / "sweep.json").read_text(encoding="utf-8"))["swept"]
    except (OSError, ValueError, KeyError):
        return []


def not_readable(word: str, path: Path) -> UserError:
    """A word that leads to no run."""
    if path.is_dir():
        return UserError(f"{word} holds no runs", where="command line", hint="a run directory has a run.json, a sweep a folder jobs",
                         outcome=None)
    beside = [str(other) for other in path.parent.glob("*") if is_run(other) or is_sweep(other)]
    return UserError(f"{word} is neither a run nor a sweep", where="command line", nearest=nearest(word, beside, 0.7), outcome=None)




def as_yaml(value: object) -> str:
    """A setting as a file would say it."""
    return yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True).removesuffix("\n").removesuffix("\n...")
