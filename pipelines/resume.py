"""Continuing a run: which one, with which settings, and whether they are still the same."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hierarchos.errors import UserError, nearest
from pipelines.hashing import differences
from pipelines.manifest import comparable
from pipelines.run_directory import UNFINISHED, read_config, read_manifest, read_overrides, runs, status_of

RUN_KEYS = ("run.resume", "run.allow_config_change", "run.begin", "run.until")


@dataclass(frozen=True)
class Earlier:
    """A run that is to be continued: its directory, what was typed for it, all its settings."""

    path: Path
    words: list[str]
    config: dict

    def words_with(self, words: list[str]) -> list[str]:
        """The command line of the earlier run, followed by what is typed now."""
        return [*self.words, *words]


def resume_word(words: list[str]) -> str | None:
    """The value of run.resume on a command line."""
    given = [word.lstrip("+").partition("=")[2] for word in words if word.lstrip("+").startswith("run.resume=")]
    return given[-1].strip("'\"") if given and given[-1] not in ("", "null") else None


def find(which: str, pipeline: str, outputs: Path) -> Earlier:
    """The run directory that `run.resume` names, or the newest unfinished one for `latest`."""
    path = _latest(pipeline, outputs) if which == "latest" else Path(which).expanduser()
    if not path.is_dir():
        near = nearest(path.name, [other.name for other in runs(outputs, pipeline)], 0.5)
        close = str(outputs / pipeline / near) if near else nearest(which, ["latest", "last", "newest"]) and "latest"
        raise UserError(f"there is no run directory {which}", where="run.resume", nearest=close or None)
    manifest = read_manifest(path, "run.resume")
    if manifest["pipeline"] != pipeline:
        raise UserError(f"{path} is a run of {manifest['pipeline']}, not of {pipeline}", where="run.resume",
                        command=f"hierarchos {manifest['pipeline']} run.resume={path}")
    return Earlier(path, read_overrides(path), read_config(path))


def begins_late(words: list[str]) -> bool:
    """Whether a command line asks to run the later stages of an earlier run again, without saying which run."""
    keys = {word.lstrip("+").partition("=")[0] for word in words}
    return "run.begin" in keys and "run.resume" not in keys


def newest(pipeline: str, outputs: Path) -> str:
    """The run of a pipeline that was started last, finished or not."""
    found = runs(outputs, pipeline)
    if not found:
        raise UserError(f"there is no run of {pipeline} to begin in", where="--from", hint=f"looked in {outputs / pipeline}")
    return str(found[-1])


def check_unchanged(earlier: Earlier, config: dict, allowed: bool) -> list[str]:
    """The settings that differ from those of the earlier run; UserError that lists them unless that is allowed."""
    changes = differences(comparable(earlier.config), comparable(config))
    if changes and not allowed:
        raise UserError(f"the settings differ from those that {earlier.path} was started with", where="run.resume",
                        hint=[*changes, "add run.allow_config_change=true to continue with the new ones, or start a new run"])
    return changes


def _latest(pipeline: str, outputs: Path) -> Path:
    """The newest run that is neither finished nor going on."""
    from pipelines.lock import is_held

    for path in reversed(runs(outputs, pipeline)):
        if status_of(path) in UNFINISHED and not is_held(path / "lock"):
            return path
    raise UserError(f"there is no unfinished run of {pipeline}", where="run.resume", hint=f"looked in {outputs / pipeline}")
