"""Checkpoints that survive a kill at any moment: written aside, synced, renamed; found again by their manifest.

    checkpoints/step-120/
        state.safetensors     parameters/NAME, first_moment/NAME, second_moment/NAME: float32, as on the device
        checkpoint.json       step, counters, the settings' fingerprint, SHA-256 and size of state.safetensors
    checkpoints/.step-130.partial/      what a kill left: ignored, reported, removed by the next save
"""
from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from hierarchos.errors import UserError

MANIFEST, STATE = "checkpoint.json", "state.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk: its folder and its manifest."""

    path: Path
    manifest: dict = field(repr=False)

    @property
    def step(self) -> int:
        return self.manifest["step"]

    @property
    def state_file(self) -> Path:
        return self.path / self.manifest.get("state_file", STATE)


def write_checkpoint(folder: Path, step: int, write_state: Callable[[Path], None], facts: dict, state: str = STATE) -> Checkpoint:
    """Writes checkpoint `step` below `folder`; until it is complete the earlier ones are all that is seen.

    write_state: writes the state file at the path it is given, and others beside it; state: its name. Raises UserError when
    the disk is full; earlier checkpoints are then as they were.
    """
    partial, target = folder / f".step-{step}.partial", folder / f"step-{step}"
    try:
        sweep_partial(folder)
        partial.mkdir(parents=True)
        write_state(partial / state)
        manifest = {"step": step, **facts, "state_file": state, "state_bytes": (partial / state).stat().st_size,
                    "state_sha256": file_hash(partial / state)}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        for path in (partial / state, partial / MANIFEST, partial):
            sync(path)
        if target.exists():
            shutil.rmtree(target)
        os.rename(partial, target)
        sync(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        kept = latest_checkpoint(folder)
        raise UserError(
            f"the disk is full: checkpoint step-{step} could not be written", where=str(folder),
            hint=f"free some space, then resume from step {kept.step}; nothing that was saved is lost" if kept
            else "free some space and start again; no checkpoint had been written yet", outcome=None) from error
    return Checkpoint(target, manifest)


def checkpoints(folder: Path) -> list[Checkpoint]:
    """All complete checkpoints below `folder`, oldest step first."""
    found = []
    for path in folder.glob("step-*") if folder.is_dir() else ():
        try:
            manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        whole = Checkpoint(path, manifest) if isinstance(manifest, dict) else None
        if whole and whole.state_file.exists() and whole.state_file.stat().st_size == manifest.get("state_bytes"):
            found.append(whole)
    return sorted(found, key=lambda c: c.step)


def left_out(folder: Path) -> list[Path]:
    """Checkpoints that are not whole: what a kill left half-written, and files that are cut short or missing."""
    whole = {checkpoint.path for checkpoint in checkpoints(folder)}
    return sorted(path for pattern in ("step-*", ".step-*.partial") for path in folder.glob(pattern) if path not in whole)


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """The complete checkpoint of the highest step, or None."""
    return max(checkpoints(folder), key=lambda c: c.step, default=None)


def verify(checkpoint: Checkpoint) -> None:
    """Raises UserError when the state file is not the one that was written."""
    if file_hash(checkpoint.state_file) != checkpoint.manifest["state_sha256"]:
        raise UserError(f"{checkpoint.path.name} is damaged: its content is not what was written", where=str(checkpoint.state_file),
                        hint=f"remove {checkpoint.path} to resume from the checkpoint before it")


def prune(folder: Path, keep_last: int, best_step: int | None) -> list[int]:
    """Removes all but the last `keep_last` checkpoints and the best one; returns the removed steps."""
    kept = {c.step for c in checkpoints(folder)[-max(1, keep_last):]} | {best_step}
    removed = [c for c in checkpoints(folder) if c.step not in kept]
    for old in removed:
        shutil.rmtree(old.path)
    return [c.step for c in removed]


def sweep_partial(folder: Path) -> list[Path]:
    """Removes what a kill left half-written; returns the removed folders."""
    left = sorted(folder.glob(".step-*.partial")) if folder.is_dir() else []
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
    return left


def file_hash(path: Path) -> str:
    """SHA-256 of a file's content, as hexadecimal text."""
    digest = sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Forces a file or a folder entry to the disk (folders cannot be synced on every system)."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):
            raise
    finally:
        os.close(handle)
