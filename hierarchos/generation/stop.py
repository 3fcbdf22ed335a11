"""Which tokens end a text, as the package says."""

from __future__ import annotations

import json
from pathlib import Path

from hierarchos.errors import UserError


def stop_ids(folder: str | Path) -> frozenset[int]:
    """eos_token_id (a number or a list) of generation_config.json, else of config.json; empty where neither names one."""
    for name in ("generation_config.json", "config.json"):
        path = Path(folder) / name
        if not path.is_file():
            continue
        found = _read(path).get("eos_token_id")
        if found is None:
            continue
        ids = found if isinstance(found, list) else [found]
        if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in ids):
            raise UserError(f"eos_token_id is {found!r}; it can be a token id or a list of them", where=str(path))
        return frozenset(ids)
    return frozenset()


def _read(path: Path) -> dict:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise UserError(f"{path.name} is not JSON", where=str(path)) from None
    return found if isinstance(found, dict) else {}
