"""usage: hierarchos resume [RUN] [KEY=VALUE ...]

Continues an interrupted or failed run, bit for bit; without RUN the newest one in ./outputs. The same as
hierarchos PIPELINE run.resume=RUN, without having to know the pipeline.
"""
from __future__ import annotations

from pathlib import Path

from hierarchos.errors import UserError
from pipelines import exits
from pipelines.settings.folders import Folders


def run(words: list[str]) -> int:
    """Finds the run and its pipeline, then goes on."""
    from pipelines.commands.rerun import run_directory
    from pipelines.main import run as run_pipeline
    from pipelines.run_directory import read_manifest

    named = words[:1] if words and "=" not in words[0] else []
    path = run_directory(named[0]) if named else newest(Path("outputs"))
    exits.stop_on_terminate()
    return run_pipeline(read_manifest(path)["pipeline"], [*words[len(named):], f"run.resume={path}"], Folders.find())


def newest(outputs: Path) -> Path:
    """The unfinished run that was started last, of any pipeline."""
    from pipelines.lock import is_held
    from pipelines.run_directory import UNFINISHED, status_of

    found = sorted((path.parent for path in outputs.glob("*/*/run.json")), key=lambda path: path.name, reverse=True)
    for path in found:
        if status_of(path) in UNFINISHED and not is_held(path / "lock"):
            return path
    raise UserError("there is no unfinished run", where=str(outputs), hint="hierarchos resume RUN continues one that lies elsewhere",
                    outcome=None)
