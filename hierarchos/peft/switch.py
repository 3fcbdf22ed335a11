"""Changing the adapter of something that generates: over the same store, so that nothing is loaded again."""
from __future__ import annotations

from typing import Protocol

from hierarchos.peft.adapted import Adapted


class Generates(Protocol):
    """What is asked of a generator: its model, and that it can give up what it compiled for it."""

    model: Adapted

    def close(self) -> None: ...


def switch(generator: Generates, name: str | None) -> None:
    """Makes a generator compute with the adapter of that name, with None as the base alone; raises UserError for unknown names.

    The next call compiles its programs; weights of all adapters are on the device already (`Generator.from_loaded(load_adapters(...))`)."""
    model = generator.model.use(name)
    generator.close()
    generator.model = model
