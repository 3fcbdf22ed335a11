"""Writing packages: aside, synced, then renamed, so that a crash or a full disk leaves the earlier state whole."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.hub.package import INDEX, SINGLE
from hierarchos.hub.safetensors_file import sync, write_tensors

if TYPE_CHECKING:
    import numpy as np

COMPANIONS = ("generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
              "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "chat_template.jinja", "chat_template.json")
SHARD_BYTES = 5_000_000_000    # as the reference splits


def write_package(folder: str | Path, config: Mapping, tensors: Mapping[str, np.ndarray], *, shard_bytes: int = SHARD_BYTES,
                  companions: str | Path | None = None, files: Mapping[str, str | bytes] | None = None) -> Path:
    """Writes config.json and float32 tensors; replaces an earlier package of that name, and only a package.

    companions: folder whose tokenizer and generation files are copied. files: further files, name -> content.
    Raises `UserError` when the disk is full or the place holds something else; the earlier state is intact then."""
    folder = Path(folder)
    _check_target(folder)
    with written_aside(folder) as aside:
        copy_companions(companions, aside)
        for name, content in (files or {}).items():
            write_file(aside / name, content)
        write_file(aside / "config.json", json.dumps(exported_config(config), indent=2) + "\n")
        write_shards(aside, tensors, shard_bytes)
    return folder


@contextmanager
def written_aside(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder` to write into; it takes that name at the end, synced, and only when nothing failed.

    What stood there before is put aside first and comes back when the renaming fails."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with disk_errors(folder):
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.writing-", dir=folder.parent))
        try:
            yield aside
            os.chmod(aside, 0o755)
            sync_folder(aside)
            _replace(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def copy_companions(source: str | Path | None, folder: Path) -> None:
    """Copies the tokenizer and generation files that `source` has."""
    for name in COMPANIONS if source else ():
        if (Path(source) / name).is_file():
            write_file(folder / name, (Path(source) / name).read_bytes())


def exported_config(config: Mapping) -> dict:
    """config.json with the dtype that is written: loaders would round the values to a narrower one that it still names."""
    return {**{name: value for name, value in config.items() if name != "torch_dtype"}, "dtype": "float32"}


def write_shards(folder: Path, tensors: Mapping[str, np.ndarray], shard_bytes: int) -> None:
    """One file, or shards of at most `shard_bytes` (a larger tensor has one of its own) and their index."""
    shards = split(tensors, shard_bytes)
    if len(shards) == 1:
        write_tensors(folder / SINGLE, tensors)
        return
    weight_map = {}
    for number, names in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        write_tensors(folder / file, {name: tensors[name] for name in names})
        weight_map |= dict.fromkeys(names, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    write_file(folder / INDEX, json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2) + "\n")


def split(tensors: Mapping[str, np.ndarray], shard_bytes: int) -> list[list[str]]:
    """Names in order, cut where the next tensor would pass the limit."""
    shards, filled = [[]], 0
    for name, tensor in tensors.items():
        if shards[-1] and filled + tensor.nbytes > shard_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += tensor.nbytes
    return shards


def write_file(path: Path, content: str | bytes) -> None:
    """A small file, synced to disk."""
    with path.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        sync(file)


def sync_folder(folder: Path) -> None:
    """Makes renames and new names in a folder durable (Windows has no such call)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace(aside: Path, folder: Path) -> None:
    """Renames the new folder into place; the old one is put aside first and comes back when anything fails."""
    old = None
    if folder.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.replaced-", dir=folder.parent)) / folder.name
        folder.rename(old)
    try:
        aside.rename(folder)
        sync_folder(folder.parent)
    except OSError:
        if folder.exists():
            folder.rename(aside)
        if old:
            old.rename(folder)
            old.parent.rmdir()
        raise
    if old:
        shutil.rmtree(old.parent, ignore_errors=True)


def _check_target(folder: Path) -> None:
    """Refuses to replace a file, or a folder that is not a package."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "config.json").exists():
        raise UserError("the folder is not empty and is not a package, so it is not replaced", where=str(folder),
                        hint="choose another place, or empty it", outcome="nothing was written")
    if folder.exists() and not folder.is_dir():
        raise UserError("a file stands where the package should go", where=str(folder), outcome="nothing was written")


@contextmanager
def disk_errors(folder: Path):
    """Tells a full or read-only disk in words; what stood at `folder` before still does."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(folder.parent).free
            raise UserError(f"the disk is full: the package could not be written ({free:,} bytes are free)", where=str(folder),
                            hint="free some space and export again", outcome=_kept(folder)) from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise UserError("the package could not be written: permission denied", where=str(folder), outcome=_kept(folder)) from error
        raise


def _kept(folder: Path) -> str:
    return "the package that was there is unchanged" if folder.exists() else "nothing was left behind"
