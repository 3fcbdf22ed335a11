"""usage: hierarchos architectures [--json]

Lists the model families that can be trained and run, and the other model types that each computes: the model_type of a
package's config.json. Of models that see or hear, the text model is trained and run.
"""
from __future__ import annotations

import json

from pipelines.commands.words import take
from pipelines.help import table


def run(words: list[str]) -> int:
    """Prints one family a line, or a JSON list of objects."""
    flags, _ = take(words, "--json")
    rows = listing()
    if "--json" in flags:
        print(json.dumps(rows))
    else:
        print("\n".join(table({row["model_type"]: ", ".join(row["aliases"]) for row in rows})))
    return 0


def listing() -> list[dict]:
    """model_type, aliases and task of each family."""
    from hierarchos.models.aliases import aliases_of
    from hierarchos.models.registry import FAMILIES, family

    return [{"model_type": name, "aliases": aliases_of(name), "task": family(name).task} for name in sorted(FAMILIES)]
