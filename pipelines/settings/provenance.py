"""Where each value of a composed configuration comes from: a file with its line, the command line, or the default of its dataclass."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml
from hydra.types import RunMode

from pipelines.settings.compose import Request, hydra_for
from pipelines.settings.files import ROOT, pairs, place
from pipelines.settings.folders import Folders
from pipelines.settings.header import package_of
from pipelines.settings.schema import settings
from pipelines.settings.yaml_file import read

DEFAULT, TYPED = "default", "command line"


def origins(request: Request) -> dict[str, str]:
    """Dotted key -> origin, for every key that a file or the command line sets; keys that are not there have their default."""
    found: dict[str, str] = {}
    for name, path in files_in_order(request):
        for key, where in keys_of(name, path):
            drop_below(found, key)
            found[key] = where
    for override in request.overrides:
        key = override.lstrip("+~").partition("=")[0]
        if key not in request.folders.groups():
            drop_below(found, key)
            found[key] = TYPED
    return found


def origin_of(key: str, found: dict[str, str]) -> str:
    """Where a leaf comes from: what set it, or what set the mapping or list that it lies in."""
    parts = key.split(".")
    return next((found[above] for n in range(len(parts), 0, -1) if (above := ".".join(parts[:n])) in found), DEFAULT)


def files_in_order(request: Request) -> Iterator[tuple[str, Path]]:
    """The configuration files that are merged, first to last."""
    listed = hydra_for(request.folders).config_loader.compute_defaults_list(ROOT, request.all_overrides, RunMode.RUN)
    for entry in listed.defaults:
        path = file_of(request.folders, entry.config_path)
        if path is not None:
            yield entry.config_path, path


def file_of(folders: Folders, name: str | None) -> Path | None:
    """The file of an entry; None for Hydra's own and for the dataclasses."""
    return folders.file(name) if name and not name.startswith("hydra/") else None


def keys_of(name: str, path: Path) -> Iterator[tuple[str, str]]:
    """Dotted keys of a file with file:line; mappings of free form (model.config) down to their leaves."""
    file = read(path)
    loader, node, package = file.loader, file.node, package_of(name, file.text)
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in pairs(loader, node):
            if key_node.value not in ("defaults", "hydra"):
                yield from below(f"{package}.{key_node.value}" if package else str(key_node.value), key_node, value_node, loader, path)


def below(key: str, key_node: yaml.Node, node: yaml.Node, loader: yaml.Loader, path: Path) -> Iterator[tuple[str, str]]:
    """The leaves of one key."""
    if not isinstance(node, yaml.MappingNode) or not node.value:
        yield key, place(path, key_node)
        return
    for name, value in pairs(loader, node):
        yield from below(f"{key}.{name.value}", name, value, loader, path)


def drop_below(found: dict[str, str], key: str) -> None:
    """A value that replaces a whole setting leaves nothing of what was below it."""
    if key in settings():
        for old in [old for old in found if old.startswith(key + ".")]:
            del found[old]
