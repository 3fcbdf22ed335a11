"""Where configuration files are: those that ship with the package, and a person's own.

Own files go into `./configs` (in any folder where `hierarchos` is started) or into the folder given with
`--config-dir`; they are found first, so a file of the same name replaces the shipped one.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hierarchos.errors import UserError, nearest
from hierarchos.resources import resource

SCHEMA = "schema"                                         # holds JSON files for editors, no settings
FEW = 12                                                  # names that an error lists in full
FETCHED = {"model": "local", "data": "files"}             # what a path or a repository may be meant for, and the option for paths
GLOBAL_GROUPS = ("pipeline", "experiment", "local")       # their files speak about all settings, not about one group


@dataclass(frozen=True)
class Folders:
    """Configuration folders, first one wins."""

    paths: tuple[Path, ...]

    @classmethod
    def find(cls, given: str | None = None) -> Folders:
        """The folder of `--config-dir`, `./configs`, and the shipped one."""
        if given is not None and not Path(given).expanduser().is_dir():
            raise UserError(f"there is no folder {given}", where="--config-dir")
        own = [Path(given).expanduser()] if given else []
        candidates = [*own, Path("configs"), resource("configs")]
        return cls(tuple(dict.fromkeys(path.resolve() for path in candidates if path.is_dir())))

    def groups(self) -> set[str]:
        """Groups that have files: "model", "data", "experiment", also nested ones ("model/mine"); looked up once."""
        return self._groups

    @cached_property
    def _groups(self) -> set[str]:
        return {below.relative_to(path).as_posix() for path in self.paths for below in path.rglob("*")
                if below.is_dir() and below.name != SCHEMA}

    def options(self, group: str) -> list[str]:
        """Names that can be chosen in a group, sorted; nested ones with their folder."""
        found = {below.relative_to(path / group).with_suffix("").as_posix()
                 for path in self.paths for below in (path / group).rglob("*.yaml")}
        return sorted(found)

    def file(self, name: str) -> Path | None:
        """The file of "model/llama_tiny" in the first folder that has it."""
        return next((path / f"{name}.yaml" for path in self.paths if (path / f"{name}.yaml").is_file()), None)

    def option(self, group: str, name: str, where: str) -> Path:
        """The file of a chosen option; UserError with the nearest name where there is none."""
        found = self.file(f"{group}/{name}") if name else None
        if found is None:
            raise self.not_an_option(group, name, where)
        return found

    def not_an_option(self, group: str, name: str, where: str) -> UserError:
        """The message for an option that no folder has."""
        options = self.options(group)
        near = None if name == "null" else nearest(name, options, 0.4)
        if group in FETCHED and "/" in name:
            source, key = (FETCHED[group], "path") if Path(name).exists() else ("hub", "repo")
            return UserError(f"{group}={name} is not there", where=where, hint=listed(options),
                             command=f"{group}={source} {group}.{key}={name}")
        return UserError(f"{group}={name} is not there", where=where, nearest=prefixed(group, near),
                         hint=listed(options) if options else f"there are no {group} files yet")


def listed(options: list[str]) -> str:
    """All options where they fit into a line or two; a few of many, and their number."""
    shown = options if len(options) <= FEW else [*options[:3], "...", options[-1]]
    return f"there is: {', '.join(shown)}" + ("" if shown is options else f" ({len(options)} in all)")


def prefixed(group: str, name: str | None) -> str | None:
    """group=name, or None without a name."""
    return f"{group}={name}" if name else None


def shown(path: Path) -> str:
    """A path as it is told: relative to the working folder where it lies inside."""
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)
