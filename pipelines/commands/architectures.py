"""usage: hierarchos architectures [--json]

Lists the architectures that can be trained and run: the model_type of a package's config.json, its task, what has been
shown of it (docs/architectures.md has the counts), and the other model types that it computes. Of models that see or
hear, the text model is trained and run.
"""
from __future__ import annotations

import json

from pipelines.commands.words import take
from pipelines.help import table


def run(words: list[str]) -> int:
    """Prints one architecture a line, or a JSON list of objects."""
    flags, _ = take(words, "--json")
    rows = listing()
    if "--json" in flags:
        print(json.dumps(rows))
    else:
        print("\n".join(table({row["model_type"]: line(row) for row in rows})))
    return 0


def line(row: dict) -> str:
    """Task and status, then the aliases."""
    also = "; also " + ", ".join(row["aliases"]) if row["aliases"] else ""
    return f"{row['task']}; {', '.join(row['status'])}{also}"


def listing() -> list[dict]:
    """model_type, aliases, task and status (a list of words) of each architecture."""
    from hierarchos.models.aliases import aliases_of
    from hierarchos.models.records import status
    from hierarchos.models.registry import FAMILIES, family

    shown = status()
    return [{"model_type": name, "aliases": aliases_of(name), "task": family(name).task, "status": shown[name]}
            for name in sorted(FAMILIES)]
