"""outputs/PIPELINE/DATE_TIME_ID/: made exclusively, and told in run.json at every change of state."""
from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from hierarchos.errors import UserError
from pipelines.files import write_json, write_text
from pipelines.lock import Lock, is_held
from pipelines.system_errors import cannot_be_made

ATTEMPTS = 100
UNFINISHED = ("running", "failed", "interrupted")


class RunDirectory:
    """A run directory that this process works in. `manifest` is the content of run.json."""

    def __init__(self, path: Path, manifest: dict):
        self.path = path
        self.manifest = manifest
        self.lock = Lock(path / "lock")

    @classmethod
    def create(cls, outputs: Path, pipeline: str, manifest: dict, config: dict, overrides: list[str],
               path: str | None = None) -> RunDirectory:
        """A new directory: the given one, or one with a name of its own even when many runs start in the same second."""
        made = _make_given(Path(path)) if path else _make_named(outputs / pipeline)
        run = cls(made, {"id": made.name, **manifest})
        run.lock.acquire()
        run.write_config(config, overrides)
        run.save(status="running", started=now())
        return run

    @classmethod
    def reopen(cls, path: Path) -> RunDirectory:
        """The directory of an earlier run, to continue it; UserError while another process works in it."""
        run = cls(path, read_manifest(path))
        if not run.lock.acquire():
            raise UserError("the run is still going on in another process", where=str(path), hint="wait for it, or stop it first")
        return run

    def write_config(self, config: dict, overrides: list[str]) -> None:
        """config.yaml: every setting; overrides.txt: what was typed, one word a line (line ends and backslashes escaped)."""
        write_text(self.path / "config.yaml", yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        escaped = [word.replace("\\", "\\\\").replace("\n", "\\n") for word in overrides]
        write_text(self.path / "overrides.txt", "".join(f"{word}\n" for word in escaped))

    def save(self, **changes: object) -> None:
        """Changes run.json."""
        self.manifest.update(changes)
        write_json(self.path / "run.json", self.manifest)

    def save_stage(self, name: str, **changes: object) -> None:
        """Changes what run.json says about one stage."""
        stages = self.manifest.setdefault("stages", {})
        stages[name] = {**stages.get(name, {}), **changes}
        self.save()

    def stage_folder(self, name: str) -> Path:
        """stages/NAME, made when asked for."""
        folder = self.path / "stages" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Gives the lock back at the end, however it ends."""
        try:
            yield
        finally:
            self.lock.release()


def read_manifest(path: Path, where: str = "command line") -> dict:
    """run.json of a directory; UserError where there is none. where: what named the directory."""
    manifest = manifest_at(path)
    if manifest is None:
        raise UserError(f"{path} is not a run directory", where=where, hint="it has no run.json that can be read")
    return manifest


def manifest_at(path: Path) -> dict | None:
    """run.json of a directory; None where there is none that can be read."""
    try:
        manifest = json.loads((path / "run.json").read_text(encoding="utf-8"))
        return manifest if {"pipeline", "status"} <= set(manifest) else None
    except (OSError, ValueError, TypeError):
        return None


def read_overrides(path: Path) -> list[str]:
    """overrides.txt of a directory: what was typed."""
    try:
        lines = (path / "overrides.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise damaged(path, "overrides.txt") from None
    return [line.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\") for line in lines]


def read_config(path: Path) -> dict:
    """config.yaml of a directory: every setting of the run."""
    try:
        found = yaml.safe_load((path / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        found = None
    if not isinstance(found, dict):
        raise damaged(path, "config.yaml")
    return found


def damaged(path: Path, name: str) -> UserError:
    """A run directory that lacks what resuming and reading need."""
    return UserError(f"{name} of {path} cannot be read", where="run directory",
                     hint="without it the run can neither go on nor be looked at; start a new one")


def status_of(path: Path) -> str:
    """The state of a run; one that says running while nobody works in it was interrupted."""
    status = read_manifest(path)["status"]
    return "interrupted" if status == "running" and not is_held(path / "lock") else status


def runs(outputs: Path, pipeline: str) -> list[Path]:
    """Run directories of a pipeline, oldest first; one whose run.json is damaged stops no other."""
    return sorted(path.parent for path in (outputs / pipeline).glob("*/run.json") if manifest_at(path.parent) is not None)


def now() -> str:
    """Local time with its offset, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def unique_folder(parent: Path) -> Path:
    """A folder DATE_TIME_ID below `parent` that nobody else has."""
    return _make_named(parent)


def _make_named(parent: Path) -> Path:
    for _ in range(ATTEMPTS):
        path = parent / f"{time.strftime('%Y-%m-%d_%H%M%S')}_{secrets.token_hex(3)}"
        try:
            parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(exist_ok=False)
        except FileExistsError as error:
            if parent.is_dir():
                continue
            raise cannot_be_made(parent, error, "run.outputs") from None
        except OSError as error:
            raise cannot_be_made(parent, error, "run.outputs") from None
        return path
    raise UserError(f"no free name for a run directory in {parent}", where="run.outputs")


def _make_given(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=False)
    except FileExistsError:
        raise UserError(f"{path} is there already", where="run.dir", hint="a run never writes into a directory that exists",
                        command=f"run.resume={path}" if (path / "run.json").exists() else None) from None
    except OSError as error:
        raise cannot_be_made(path, error, "run.dir") from None
    return path
