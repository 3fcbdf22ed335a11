"""The settings as a flat table by dotted key, read from the dataclasses; imports nothing heavy.

    settings()["train.learning_rate"] -> Setting(kind=float, default=0.001, limits=above 0, help="The highest rate ...")
"""
from __future__ import annotations

import ast
import dataclasses
import itertools
import sys
import types
import typing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pipelines.config import Config
from pipelines.config.setting import Limits


@dataclass(frozen=True)
class Setting:
    """One setting. kind: bool, int, float, str, list, dict or None (checked by `limits.accepts`); item: type of list items."""

    key: str
    kind: type | None
    item: type | None
    optional: bool
    default: object
    limits: Limits
    help: str

    @property
    def is_text(self) -> bool:
        return self.kind is str or str in self.limits.accepts


@cache
def settings() -> dict[str, Setting]:
    """Every setting by its dotted key, in the order of the dataclasses."""
    return dict(_walk(Config, ""))


@cache
def groups() -> dict[str, str]:
    """Dotted names of groups ("train", "train.optimizer") and their one-line help."""
    return dict(_walk_groups(Config, ""))


def open_parent(key: str) -> str | None:
    """The free-form setting ("model.config") that `key` lies in, or None."""
    return next((name for name, s in settings().items() if s.kind is dict and key.startswith(name + ".")), None)


def _walk(cls: type, prefix: str):
    helps, hints = field_help(cls), typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        key, hint = prefix + field.name, hints[field.name]
        if dataclasses.is_dataclass(hint):
            yield from _walk(hint, key + ".")
        else:
            yield key, _setting(key, hint, field, helps.get(field.name, ""))


def _walk_groups(cls: type, prefix: str):
    helps, hints = field_help(cls), typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hints[field.name]):
            yield prefix + field.name, helps.get(field.name, "")
            yield from _walk_groups(hints[field.name], f"{prefix}{field.name}.")


def _setting(key: str, hint: object, field: dataclasses.Field, text: str) -> Setting:
    limits = field.metadata.get("limits", Limits())
    optional = False
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
        optional = True
    default = field.default if field.default is not dataclasses.MISSING else field.default_factory()
    if hint is typing.Any:
        return Setting(key, None, None, default is None, default, limits, text)
    arguments = typing.get_args(hint)
    item = arguments[0] if typing.get_origin(hint) is list and arguments[0] is not typing.Any else None
    return Setting(key, typing.get_origin(hint) or hint, item, optional, default, limits, text)


def field_help(cls: type) -> dict[str, str]:
    """The string literal under each field of a dataclass, from its source file."""
    return _file_help(Path(typing.cast(str, sys.modules[cls.__module__].__file__))).get(cls.__name__, {})


@cache
def _file_help(path: Path) -> dict[str, dict[str, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: _class_help(node.body) for node in tree.body if isinstance(node, ast.ClassDef)}


def _class_help(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for field, after in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[field.target.id] = " ".join(str(after.value.value).split())
    return found
