"""Results of stages by what decided them: outputs/cache/STAGE/KEY/ holds `artefact.json` and `files/`.

An entry is written aside and renamed, so that a kill leaves none that is half; two runs that make the same entry at
once keep the first.
"""
from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from pipelines.hashing import differences, hash_folder, hash_json
from pipelines.stage import Artefact

MANIFEST, FILES = "artefact.json", "files"


class StageCache:
    """The cache below `folder`, which is made when the first entry is."""

    def __init__(self, folder: Path):
        self.folder = folder

    def entry(self, stage: str, key: dict) -> Path:
        """Where the result for this key is, or will be."""
        return self.folder / stage / hash_json(key)[:24]

    def find(self, stage: str, key: dict) -> Artefact | None:
        """The kept result, or None."""
        entry = self.entry(stage, key)
        try:
            manifest = json.loads((entry / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return None
        return Artefact(entry / FILES, manifest["digest"], manifest["facts"])

    def make(self, stage: str, key: dict, write: Callable[[Path], dict], again: bool = False) -> Artefact:
        """Runs `write(folder)`, which returns facts, and keeps what it wrote. again: in place of what is kept."""
        entry = self.entry(stage, key)
        partial = entry.with_name(f".{entry.name}.{uuid.uuid4().hex[:8]}.partial")
        try:
            (partial / FILES).mkdir(parents=True)
            facts = write(partial / FILES)
            manifest = {"stage": stage, "digest": facts.pop("digest", None) or hash_folder(partial / FILES), "facts": facts, "key": key}
            (partial / MANIFEST).write_text(json.dumps(manifest, indent=1, default=str), encoding="utf-8")
            _publish(partial, entry, again)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        found = self.find(stage, key)
        assert found is not None
        return found

    def reason(self, stage: str, key: dict) -> str:
        """Why there is no entry: how this key differs from the most similar one that is kept."""
        changes = [differences(kept, key) for kept in self._keys(stage)]
        if not changes:
            return "it has not run before"
        fewest = min(changes, key=len)
        return "changed: " + "; ".join(fewest[:3]) + (f" and {len(fewest) - 3} more" if len(fewest) > 3 else "")

    def _keys(self, stage: str) -> list[dict]:
        found = []
        for path in sorted((self.folder / stage).glob(f"*/{MANIFEST}")):
            try:
                found.append(json.loads(path.read_text(encoding="utf-8"))["key"])
            except (OSError, json.JSONDecodeError, KeyError):
                continue
        return found


def _publish(partial: Path, entry: Path, again: bool) -> None:
    """Renames into place; an entry without a manifest (a damaged one) is replaced, a whole one is kept unless it is made again."""
    if entry.exists() and (again or not (entry / MANIFEST).exists()):
        old = partial.with_name(f"{partial.name}.old")
        os.rename(entry, old)
        shutil.rmtree(old, ignore_errors=True)
    try:
        os.rename(partial, entry)
    except OSError:
        if not (entry / MANIFEST).exists():
            raise
