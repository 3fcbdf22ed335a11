"""Where the files that ship with the package are: SPIR-V and configs, in a wheel or in a checkout."""
from __future__ import annotations

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent


@cache
def resource(name: str) -> Path:
    """Path of a shipped folder ("configs", "shaders/spirv"): beside the package in a checkout, inside it in a wheel."""
    for root in (PACKAGE / "_data", PACKAGE.parent):
        if (root / name).exists():
            return root / name
    raise FileNotFoundError(f"{name} is not part of this installation; install hierarchos again")
