"""Small files that are never half written."""
from __future__ import annotations

import json
import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Replaces a file as a whole: written aside, synced, renamed."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def write_json(path: Path, value: object) -> None:
    """Replaces a JSON file as a whole."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")
