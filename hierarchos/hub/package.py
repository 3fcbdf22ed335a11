"""A package folder opened for reading: where each tensor lies, single file or shards."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError, nearest
from hierarchos.hub.convert import threads
from hierarchos.hub.header import Entry
from hierarchos.hub.safetensors_file import TensorFile

if TYPE_CHECKING:
    import numpy as np

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth")


COMPARED = 1 << 20      # values at a time


class BadPackage(UserError):
    """A package folder whose files are absent or contradict each other."""


class Package:
    """The tensors of a package by name. `home[name]` is the file that holds one."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise BadPackage("there is no such folder", where=str(self.folder), nearest=_sibling(self.folder))
        self.home = _open(self.folder)

    @property
    def entries(self) -> dict[str, Entry]:
        """dtype, shape and place of every tensor."""
        return {name: file.entries[name] for name, file in self.home.items()}

    def shape(self, name: str) -> tuple[int, ...]:
        return self.home[name].entries[name].shape

    def read(self, name: str, first: int = 0, last: int | None = None) -> np.ndarray:
        """float32 values of one tensor, or of its rows first .. last."""
        return self.home[name].read(name, first, last)

    def same(self, first: str, second: str) -> bool:
        """Whether two tensors hold the same values; some rows at a time."""
        import numpy as np

        shape = self.shape(first)
        if shape != self.shape(second) or not shape or not all(shape):
            return shape == self.shape(second) and bool(np.array_equal(self.read(first), self.read(second)))
        rows = max(1, COMPARED * shape[0] // math.prod(shape))
        return all(np.array_equal(self.read(first, at, min(at + rows, shape[0])), self.read(second, at, min(at + rows, shape[0])))
                   for at in range(0, shape[0], rows))


def _sibling(folder: Path) -> str | None:
    if not folder.parent.is_dir():
        return None
    near = nearest(folder.name, [path.name for path in folder.parent.iterdir() if path.is_dir()])
    return str(folder.parent / near) if near else None


def _open(folder: Path) -> dict[str, TensorFile]:
    if (folder / INDEX).is_file() and not (folder / SINGLE).is_file():
        return _open_shards(folder)
    if not (folder / SINGLE).is_file():
        raise _no_weights(folder)
    file = TensorFile(folder / SINGLE)
    return dict.fromkeys(file.entries, file)


def _no_weights(folder: Path) -> BadPackage:
    pickled = [name for name in PICKLES if (folder / name).exists()]
    hint = (f"{pickled[0]} is a pickle, which can run code when it is read; convert it to safetensors first",) if pickled else ()
    return BadPackage(f"a package needs {SINGLE} or {INDEX}, there is neither", where=str(folder), hint=hint)


def _open_shards(folder: Path) -> dict[str, TensorFile]:
    where = str(folder / INDEX)
    weight_map = _weight_map(folder / INDEX)
    for name in sorted(set(weight_map.values())):
        if Path(name).name != name or name in (".", "..") or "\\" in name:
            raise BadPackage(f"the index names {name!r}, which is not a file of this package", where=where,
                             hint="file names in weight_map have no folder in them", outcome="nothing was read")
    absent = [name for name in sorted(set(weight_map.values())) if not (folder / name).is_file()]
    if absent:
        raise BadPackage(f"{len(absent)} of {len(set(weight_map.values()))} shards are missing: {', '.join(absent[:5])}", where=where,
                         hint="copy or download the package again")
    names = sorted(set(weight_map.values()))
    files = dict(zip(names, threads().map(TensorFile, [folder / name for name in names]), strict=True))
    _check_index(files, weight_map, where)
    return {tensor: files[name] for tensor, name in weight_map.items()}


def _weight_map(path: Path) -> dict[str, str]:
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        weight_map = index["weight_map"]
        assert isinstance(weight_map, dict) and all(isinstance(name, str) for name in weight_map.values())
    except (ValueError, KeyError, TypeError, AssertionError, RecursionError):
        raise BadPackage("the index is not JSON with a weight_map of names to files", where=str(path)) from None
    return weight_map


def _check_index(files: dict[str, TensorFile], weight_map: dict[str, str], where: str) -> None:
    """Index and shards must agree on where each tensor lies."""
    for tensor, name in weight_map.items():
        if tensor not in files[name].entries:
            raise BadPackage(f"the index places {tensor} in {name}, which does not hold it", where=where,
                             hint="copy or download the package again")
    for name, file in files.items():
        for tensor in file.entries:
            if tensor not in weight_map:
                raise BadPackage(f"{name} holds {tensor}, which the index does not list", where=where)
            if weight_map[tensor] != name:
                raise BadPackage(f"{tensor} stands in {name} and in {weight_map[tensor]}", where=where)
