"""YAML files as trees with line numbers, read once while they do not change."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import yaml
from omegaconf._utils import get_yaml_loader  # Hydra's own reading of numbers: 1e-5 is a number

from hierarchos.errors import UserError
from pipelines.settings.folders import shown


@dataclass(frozen=True)
class YamlFile:
    """node: the tree, None for an empty file. twice: (key, line of the first one) of keys that a mapping has twice."""

    loader: yaml.Loader
    node: yaml.Node | None
    text: str
    twice: tuple[tuple[yaml.Node, int], ...]


def read(path: Path) -> YamlFile:
    """A file as a tree with line numbers; UserError when it is not UTF-8 or not YAML."""
    found = path.stat()
    return _read(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=256)
def _read(path: Path, *_: int) -> YamlFile:
    try:
        text = path.read_text(encoding="utf-8")
        loader, node = tree(text)
        return YamlFile(loader, node, text, tuple(twice(node)))                # before `<<` is merged in, which may be overridden
    except UnicodeDecodeError as error:
        line = path.read_bytes()[:error.start].count(b"\n") + 1
        raise UserError("the file is not UTF-8", where=f"{shown(path)}:{line}", hint="save it as UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{shown(path)}:{mark.line + 1}" if mark else shown(path)
        raise UserError(f"this is not YAML: {getattr(error, 'problem', None) or error}", where=where) from None


def tree(text: str) -> tuple[yaml.Loader, yaml.Node | None]:
    """Read by libyaml where PyYAML has it, in a tenth of the time; what that refuses is told in the words of PyYAML's own parser."""
    try:
        loader = fast_loader()(text)
        return loader, loader.get_single_node()
    except yaml.YAMLError:
        loader = get_yaml_loader()(text)
        return loader, loader.get_single_node()


def twice(node: yaml.Node | None) -> Iterator[tuple[yaml.Node, int]]:
    """Keys that a mapping has twice, at any depth; only the last would count."""
    lines: dict[str, int] = {}
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value in lines:
            yield key, lines[key.value]
        lines[key.value] = key.start_mark.line + 1
        yield from twice(value)


@cache
def fast_loader() -> type:
    """OmegaConf's loader with libyaml as its parser, if it is there. Keys given twice are not refused here, but by FileCheck."""
    theirs = get_yaml_loader()
    return type("Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),),
                {"yaml_implicit_resolvers": theirs.yaml_implicit_resolvers, "yaml_constructors": theirs.yaml_constructors})
