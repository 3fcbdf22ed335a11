"""usage: hierarchos architectures [--json]

Lists the model families that can be trained and run: the model_type of a package's config.json.
"""
from __future__ import annotations

import json

from pipelines.commands.words import take


def run(words: list[str]) -> int:
    """Prints one family a line, or JSON."""
    flags, _ = take(words, "--json")
    from hierarchos.models.registry import FAMILIES

    if "--json" in flags:
        print(json.dumps(sorted(FAMILIES)))
    else:
        print("\n".join(sorted(FAMILIES)))
    return 0
