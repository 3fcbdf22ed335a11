"""What a stage is: a name, the settings and stages it reads, a key, and a run. Anything with these can be put into a pipeline.

    pipeline:
      stages: [acquire, tokenize, {_target_: mine.CountTokens}, train]
"""
from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.progress import Progress
    from pipelines.run_directory import RunDirectory
    from pipelines.tracking.tracker import Tracker

Watch = Callable[[int, float], None]          # told step and loss of each validation


@dataclass(frozen=True)
class Artefact:
    """What a stage made: its files, the hash of their content, and small facts about them (JSON values)."""

    folder: Path
    digest: str
    facts: dict = field(default_factory=dict)


@dataclass
class Context:
    """What a stage sees while it runs. folder: where it writes; artefacts: of the stages before it, by name."""

    config: Config
    run: RunDirectory
    progress: Progress
    artefacts: dict[str, Artefact] = field(default_factory=dict)
    folder: Path = Path()
    resuming: bool = False
    looked_at: Path = Path()
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("hierarchos"))
    tracker: Tracker | None = None
    watch: Watch | None = None
    _device: object = None

    @property
    def device(self) -> object:
        """The Vulkan device, opened when the first stage asks for it."""
        if self._device is None:
            from pipelines.devices import open_selected

            self._device = open_selected(self.config.device)
        return self._device

    def close(self) -> None:
        """Closes the device, if one was opened."""
        if self._device is not None:
            self._device.close()
            self._device = None

    def latest(self, *names: str) -> Artefact | None:
        """The artefact of the first of these stages that ran."""
        return next((self.artefacts[name] for name in names if name in self.artefacts), None)


class Stage(Protocol):
    """One step of a pipeline.

    groups: groups of settings that decide the result. inputs: stages whose results it reads, "export?" for one that
    may be absent. cached: whether its files are kept in the stage cache and taken from there.
    """

    name: str
    groups: tuple[str, ...]
    inputs: tuple[str, ...]
    cached: bool
    uses_device: bool

    def check(self, config: Config) -> None:
        """Looks at what the settings point to (files, folders); raises UserError before anything starts."""

    def key(self, context: Context) -> dict:
        """All that decides the result, as JSON values; never paths, never times."""

    def preview(self, context: Context) -> Artefact | None:
        """For --explain, optional: the result's digest where it is known without running; else None."""

    def run(self, context: Context) -> dict:
        """Writes files into `context.folder` and returns facts about them."""
