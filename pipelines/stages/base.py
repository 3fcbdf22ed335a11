"""What most stages share: a key made of their settings, their code and the content of their inputs."""
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pipelines.hashing import hash_shaders, hash_source

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.stage import Context


class BaseStage:
    """Subclasses say what they read; see `pipelines.stage.Stage`. modules: packages whose source is the stage's code version."""

    name = ""
    groups: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    cached = False
    uses_device = False

    def check(self, config: Config) -> None:
        """Nothing to look at."""

    def settings(self, config: Config) -> dict:
        """The settings that decide the result: all of `groups`, unless a stage narrows them down."""
        return {group: dataclasses.asdict(getattr(config, group)) for group in self.groups}

    def key(self, context: Context) -> dict:
        """Settings, code version and digests of the inputs that are there."""
        names = [name.rstrip("?") for name in self.inputs]
        key = {"settings": self.settings(context.config), "code": hash_source(type(self).__module__, *self.modules),
               "inputs": {name: context.artefacts[name].digest for name in names if name in context.artefacts}}
        if self.uses_device:
            key |= {"shaders": hash_shaders(), "precision": context.config.precision.compute, "seed": context.config.run.seed}
        return key
