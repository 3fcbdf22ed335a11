"""Keeps what the oracle computed in outputs/cache/parity (ignored by git): another device or driver compares with the same numbers.

A file is valid for its case, batch, versions, instruction set and for the code of the oracle; delete the folder at any time."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from validation.parity.cases import Case

FOLDER = Path(__file__).parents[2] / "outputs/cache/parity"
# Under validation/: what the numbers depend on; the last for small configurations only.
CODE = ("parity/oracle.py", "parity/shuffled.py", "parity/stand_in.py", "parity/compare.py", "parity/gates.py", "reference.py")


def cached(case: Case, arrays: dict, what: tuple, compute: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays by name, from the folder or computed. what: which quantity of the case; the batch is in the key by its contents."""
    path = FOLDER / case.model_type / f"{key(case, arrays, what)}.npz"
    try:
        with np.load(path) as file:
            return dict(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):      # none there, or cut short
        found = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.stem}.{os.getpid()}.partial.npz")
    np.savez(partial, **found)
    partial.replace(path)
    return found


def key(case: Case, arrays: dict, what: tuple) -> str:
    """Short hash of all that the numbers depend on."""
    tiny = case.tiny and (case.tiny.raw, case.tiny.auto, case.tiny.class_name, case.tiny.seed, case.tiny.fault)
    around = surroundings(CODE if tiny else CODE[:-1])
    digest = hashlib.sha256(repr((case.model_type, case.config, case.padding, tiny, what, around)).encode())
    for name in sorted(arrays):
        digest.update(name.encode() + repr(arrays[name].shape).encode() + arrays[name].tobytes())
    return digest.hexdigest()[:24]


@cache
def surroundings(sources: tuple[str, ...]) -> tuple:
    """Versions, instruction set, and a hash of the oracle's code."""
    import torch
    import transformers

    code = hashlib.sha256(b"".join((Path(__file__).parents[1] / name).read_bytes() for name in sources)).hexdigest()
    return torch.__version__, transformers.__version__, np.__version__, torch.backends.cpu.get_cpu_capability(), code
