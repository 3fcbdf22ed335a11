"""usage: hierarchos crate RUN [--zip]

Writes ro-crate-metadata.json into a run directory: what ran, with which settings, on which inputs, and what came of it, as a Workflow Run
RO-Crate (https://w3id.org/ro/wfrun/process), which archives such as Zenodo and WorkflowHub read. --zip also packs the directory.
"""
from __future__ import annotations

import shutil
from pathlib import Path

from hierarchos.errors import UserError
from pipelines.commands.rerun import run_directory
from pipelines.commands.words import take


def run(words: list[str]) -> int:
    """Writes the description; says where it is."""
    flags, names = take(words, "--zip", names=True)
    if len(names) != 1:
        raise UserError("which run?", where="command line", command="hierarchos crate outputs/train/DATE_TIME_ID", outcome=None)
    path = run_directory(names[0]).resolve()
    from pipelines.files import write_json
    from pipelines.ro_crate import NAME, crate

    write_json(path / NAME, crate(path))
    print(path / NAME)
    if "--zip" in flags:
        print(packed(path))
    return 0


def packed(path: Path) -> Path:
    """A zip file beside the run directory; checkpoints and locks stay out of it."""
    aside = path.with_name(f".{path.name}.crate")
    shutil.copytree(path, aside, ignore=shutil.ignore_patterns("checkpoints", "lock", "cache"))
    try:
        return Path(shutil.make_archive(str(path) + ".crate", "zip", aside))
    finally:
        shutil.rmtree(aside)
