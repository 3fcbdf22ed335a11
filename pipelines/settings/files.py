"""Checks every configuration file that a run reads, and tells all mistakes at once with file and line."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from hierarchos.errors import UserError
from pipelines.settings.folders import Folders, shown
from pipelines.settings.header import package_of
from pipelines.settings.names import nearest_setting, unknown_setting
from pipelines.settings.schema import groups, open_parent, settings
from pipelines.settings.values import check
from pipelines.settings.yaml_file import read

ROOT = "hierarchos"


@dataclass
class FileCheck:
    """Walks the files from hierarchos.yaml on. `chosen`: options of the command line by group, which replace those in files."""

    folders: Folders
    chosen: dict[str, list[str]]
    errors: list[UserError] = field(default_factory=list)
    seen: dict[str, Path] = field(default_factory=dict)
    names_hydra: bool = False           # a file beside hierarchos.yaml says something about Hydra itself

    def run(self) -> list[UserError]:
        self.file(ROOT, self.folders.file(ROOT))
        return self.errors

    def file(self, name: str, path: Path) -> None:
        """One file: its defaults list, then its keys."""
        if name in self.seen:
            return
        self.seen[name] = path
        try:
            file = read(path)
        except UserError as error:
            self.errors.append(error)
            return
        loader, node = file.loader, file.node
        if node is None:
            self.errors += [nothing_set(path)] if name.startswith("experiment/") else []
            return
        if not isinstance(node, yaml.MappingNode):
            self.errors.append(UserError("the file is not a mapping of settings", where=place(path, node)))
            return
        package = package_of(name, file.text)
        for key_node, value_node in pairs(loader, node):
            if key_node.value == "defaults":
                self.defaults(name, path, loader, value_node)
            elif key_node.value == "hydra":
                self.names_hydra |= name != ROOT
            else:
                self.key(f"{package}.{key_node.value}" if package else str(key_node.value), path, loader, key_node, value_node)
        self.errors += [UserError(f"{key.value} is given twice", where=place(path, key), hint=f"first in line {line}")
                        for key, line in file.twice]

    def defaults(self, name: str, path: Path, loader: yaml.Loader, node: yaml.Node) -> None:
        """Follows the entries of a defaults list."""
        entries = node.value if isinstance(node, yaml.SequenceNode) else []
        for entry in entries:
            if isinstance(entry, yaml.ScalarNode):
                self.include(name, entry.value, place(path, entry))
            elif isinstance(entry, yaml.MappingNode):
                for key_node, value_node in entry.value:
                    self.entry(name, str(key_node.value), loader.construct_object(value_node, deep=True), place(path, entry))

    def include(self, name: str, value: str, where: str) -> None:
        """An entry that is only a name: another file of the same folder, or /group/name."""
        if value in ("_self_", "settings"):
            return
        group = value.strip("/").rpartition("/")[0] if value.startswith("/") else name.rpartition("/")[0]
        self.follow(group, value.rpartition("/")[2], where)

    def entry(self, name: str, key: str, value: object, where: str) -> None:
        """One entry such as `override /model: gpt2_tiny`."""
        words = key.split()
        optional, group = "optional" in words[:-1], words[-1].partition("@")[0]
        parent = name.rpartition("/")[0]
        absolute = group.strip("/") if group.startswith("/") or not parent else f"{parent}/{group}"
        if absolute.startswith("hydra"):
            self.names_hydra |= name != ROOT
            return
        if value is None or "${" in str(value):
            value = None
        elif absolute not in self.folders.groups():
            if not optional:
                self.errors.append(self.no_such_group(group, absolute, value, where))
            return
        for option in self.chosen.get(absolute, value if isinstance(value, list) else [value]):
            if option is not None and not (optional and self.folders.file(f"{absolute}/{option}") is None):
                self.follow(absolute, str(option), where)

    def follow(self, group: str, option: str, where: str) -> None:
        try:
            self.file(f"{group}/{option}", self.folders.option(group, option, where))
        except UserError as error:
            self.errors.append(error)

    def no_such_group(self, group: str, absolute: str, value: object, where: str) -> UserError:
        if group in self.folders.groups():
            return UserError(f"{group} in a file of {absolute.rpartition('/')[0]}/ needs a slash before it", where=where,
                             command=f"override /{group}: {value}")
        near = nearest_setting(group.strip("/"), self.folders.groups())
        return UserError(f"{group.strip('/')} is not a group of files", where=where, nearest=near)

    def key(self, key: str, path: Path, loader: yaml.Loader, key_node: yaml.Node, node: yaml.Node) -> None:
        """One key of a file, and everything below it."""
        where = place(path, key_node)
        if open_parent(key):
            return
        if "." in str(key_node.value):
            self.errors.append(dotted(key, where))
        elif key in settings():
            scalar = node.value if isinstance(node, yaml.ScalarNode) and not node.style else None
            self.errors += check(settings()[key], loader.construct_object(node, deep=True), where, scalar)
        elif key not in groups():
            self.errors.append(unknown_setting(key, where))
        elif not isinstance(node, yaml.MappingNode):
            self.errors.append(UserError(f"{key} is a group: settings go below it, indented", where=where))
        else:
            for below, value in pairs(loader, node):
                self.key(f"{key}.{below.value}", path, loader, below, value)


def nothing_set(path: Path) -> UserError:
    """An experiment file with comments only."""
    return UserError("the file sets nothing", where=shown(path), hint="settings are written like this:  train: {steps: 100}")


def dotted(key: str, where: str) -> UserError:
    """`train.steps: 5` in a file is one key with a dot in it, which nothing reads."""
    if key not in settings() and key not in groups():
        return unknown_setting(key, where)
    nested = key.replace(".", ": {") + ": ..." + "}" * key.count(".")
    return UserError(f"{key} must be nested in a file", where=where, hint=nested)


def pairs(loader: yaml.Loader, node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Keys and values, `<<` merged in."""
    loader.flatten_mapping(node)
    yield from node.value


def place(path: Path, node: yaml.Node) -> str:
    """file:line of a node."""
    return f"{shown(path)}:{node.start_mark.line + 1}"


def choice_errors(folders: Folders, group: str, option: str, where: str) -> list[UserError]:
    """The mistake in a group choice of the command line, if there is one."""
    try:
        folders.option(group, option, where)
    except UserError as error:
        if group == "data" and Path(option).suffix:
            return [UserError(f"data={option} names a file", where=where, command=f"data=files data.path={option}")]
        return [error]
    return []
