"""Looking without running: the settings, the stages and why they would run."""
from __future__ import annotations

from pipelines import execute, exits
from pipelines.settings.folders import Folders
from pipelines.settings.resolve import as_dict


def look(pipeline: str, words: list[str], folders: Folders, what: str) -> int:
    """what: "cfg" prints the settings, "explain" the stages, "dry_run" both. Nothing is created on disk."""
    job = execute.prepare(pipeline, words, folders)
    if what in ("cfg", "dry_run"):
        print(settings_text(as_dict(job.config)))
    if what in ("explain", "dry_run"):
        print("\n".join(execute.explained(job)))
    return exits.DONE


def settings_text(values: dict) -> str:
    """All settings as YAML."""
    import yaml

    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True).rstrip("\n")
