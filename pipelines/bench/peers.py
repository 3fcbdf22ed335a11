"""Whether PyTorch can be asked, for a comparison in the same run.

The program itself imports no PyTorch: modules of validation/, which only a checkout of the source has, do, in processes of their own.
"""
from __future__ import annotations

import subprocess
from importlib.util import find_spec

KILLED = -9


def missing(module: str, *packages: str) -> str | None:
    """Why there is no comparison, and what to do for one; None where all that `module` needs is here."""
    lacking = [name for name in packages if find_spec(name) is None]
    if lacking:
        verb = "is" if len(lacking) == 1 else "are"
        return f"{', '.join(lacking)} {verb} not installed, so nothing is compared; to compare:  pip install {' '.join(packages)}"
    if find_spec(module.partition(".")[0]) is None:
        return f"nothing is compared: {module.replace('.', '/')}.py is only in a checkout of the source; run this there"
    return None


def why(done: subprocess.CompletedProcess) -> str:
    """The last words of a process that failed."""
    if done.returncode == KILLED:
        return "its process was killed (for want of memory, mostly)"
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"it ended with status {done.returncode}"
