"""The world that a run was started in, as files beside run.json: every installed package, and the changes to the source checkout."""
from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path

from pipelines.files import write_text

LOCK, PATCH = "environment.txt", "git.patch"
LARGEST_PATCH = 8 << 20          # bytes; a larger one is named in run.json and not kept


def lock() -> str:
    """Every installed distribution as name==version, sorted: what `pip install -r` takes."""
    found = {(one.metadata["Name"], one.version) for one in metadata.distributions() if one.metadata["Name"]}
    return "".join(f"{name}=={version}\n" for name, version in sorted(found, key=lambda pair: pair[0].lower()))


def git_state(folder: Path) -> dict | None:
    """Commit of the source checkout, how many files differ from it, and those that git does not know; None outside a checkout."""
    if not (folder / ".git").exists():
        return None
    try:
        changes = git(folder, "status", "--porcelain").splitlines()
        unknown = [line[3:] for line in changes if line.startswith("??")]
        return {"commit": git(folder, "rev-parse", "HEAD").strip(), "changed_files": len(changes), "untracked": unknown}
    except (OSError, subprocess.SubprocessError):
        return None


def write_environment(run: Path, folder: Path, state: dict | None) -> dict | None:
    """environment.txt, and git.patch where the checkout differs from its commit; returns the git state with the patch's name in it."""
    write_text(run / LOCK, lock())
    if state is None or state["changed_files"] == len(state["untracked"]):
        return state
    try:
        patch = git(folder, "diff", "HEAD", "--binary")
    except (OSError, subprocess.SubprocessError):
        return state
    if len(patch) > LARGEST_PATCH:
        return state | {"patch": f"not kept: {len(patch)} bytes"}
    write_text(run / PATCH, patch)
    return state | {"patch": PATCH}


def git(folder: Path, *words: str) -> str:
    """What a git command prints."""
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20, errors="replace").stdout
