"""usage: hierarchos bench [NAMES] [--json]

Measures training steps and kernels on the default device; with peers beside them where those are installed.
"""
from __future__ import annotations

from importlib.util import find_spec

from hierarchos.errors import UserError


def run(words: list[str]) -> int:
    """Hands over to validation.bench, which a source checkout has."""
    if find_spec("validation") is None or find_spec("validation.bench") is None:
        raise UserError("benchmarks are part of the source checkout", hint="run this in the folder that holds validation/", outcome=None)
    from validation.bench import main

    return main(words)
