"""The dataclasses as Hydra's structured config: same fields and defaults, but not frozen while files are merged into it."""
from __future__ import annotations

import dataclasses
import types
import typing
from functools import cache

from hydra.core.config_store import ConfigStore

from pipelines.config import Config


def register() -> None:
    """Registers the schema that hierarchos.yaml builds on, as `settings`."""
    ConfigStore.instance().store(name="settings", node=mergeable(Config))


@cache
def mergeable(cls: type) -> type:
    """A dataclass like `cls` that OmegaConf may write to, at every depth."""
    hints = typing.get_type_hints(cls)
    return dataclasses.make_dataclass(cls.__name__, [_field(field, hints[field.name]) for field in dataclasses.fields(cls)])


def _field(field: dataclasses.Field, hint: type) -> tuple[str, object, dataclasses.Field]:
    if dataclasses.is_dataclass(hint):
        return field.name, mergeable(hint), dataclasses.field(default_factory=mergeable(hint))
    if isinstance(hint, types.UnionType):
        hint = typing.Optional[typing.get_args(hint)[0]]  # noqa: UP045
    if field.default is not dataclasses.MISSING:
        return field.name, hint, dataclasses.field(default=field.default)
    return field.name, hint, dataclasses.field(default_factory=field.default_factory)


def build(cls: type, values: dict) -> object:
    """A frozen `cls` from nested dictionaries that hold every field."""
    hints = _hints(cls)
    return cls(**{name: build(hints[name], value) if dataclasses.is_dataclass(hints[name]) else value for name, value in values.items()})


_hints = cache(typing.get_type_hints)
