"""Composes files and command line with Hydra, once everything that people can get wrong has been checked."""
from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from hydra import version
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from hierarchos.errors import UserError, nearest
from pipelines.settings import source, typed
from pipelines.settings.command_line import CommandLine
from pipelines.settings.files import ROOT, FileCheck
from pipelines.settings.folders import Folders
from pipelines.settings.lean import compose_settings
from pipelines.settings.problems import raise_all

PLUGINS = {              # what brings a launcher or sweeper beside Hydra's own
    "launcher": {"basic": "hydra-core", "joblib": "hydra-joblib-launcher", "submitit_local": "hydra-submitit-launcher",
                 "submitit_slurm": "hydra-submitit-launcher", "ray": "hydra-ray-launcher"},
    "sweeper": {"basic": "hydra-core", "optuna": "hydra-optuna-sweeper", "ax": "hydra-ax-sweeper", "nevergrad": "hydra-nevergrad-sweeper"},
}


@dataclass(frozen=True)
class Request:
    """A checked command line: the pipeline, the overrides for Hydra, and which of them sweep."""

    pipeline: str
    folders: Folders
    overrides: tuple[str, ...]
    sweeps: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    names_hydra: bool = False            # words or files speak about Hydra itself: its own node is composed, and so checked, as well

    @property
    def all_overrides(self) -> list[str]:
        return [f"pipeline={self.pipeline}", *self.overrides]


def check_request(pipeline: str, words: Sequence[str], folders: Folders, multirun: bool = False) -> Request:
    """Checks words and files; raises all their mistakes together."""
    line = CommandLine(folders, multirun)
    for word in words:
        line.add(word)
    chosen = {"pipeline": [pipeline], **line.chosen}
    wrong = {error.what.partition(" ")[0] for error in line.errors}            # a wrong choice has been told already
    known = {group: [name for name in names if f"{group}={name}" not in wrong] for group, names in chosen.items()}
    files = FileCheck(folders, known)
    raise_all(line.errors + files.run())
    names_hydra = files.names_hydra or any(override.lstrip("+~").startswith("hydra") for override in line.overrides)
    return Request(pipeline, folders, tuple(line.overrides), tuple(line.sweeps), tuple(words), names_hydra)


def hydra_for(folders: Folders) -> Hydra:
    """A Hydra instance that searches these folders; the keys that files require are noted anew."""
    source.forget()
    return _instance(folders)


@lru_cache(maxsize=1)
def _instance(folders: Folders) -> Hydra:
    """Files are read for each composition; only the search path and the schema are kept."""
    version.setbase("1.3")
    source.register()
    typed.register()
    search_path = ConfigSearchPathImpl()
    search_path.append("hydra", "pkg://hydra.conf")
    for index, path in enumerate(folders.paths):
        search_path.append("main" if index == 0 else f"main-{index}", f"hierarchos://{path}")
    for plugin in Plugins.instance().discover(SearchPathPlugin):
        plugin().manipulate_search_path(search_path)
    search_path.append("schema", "structured://")
    GlobalHydra.instance().clear()
    return Hydra.create_main_hydra2(task_name="hierarchos", config_search_path=search_path)


def compose(request: Request) -> DictConfig:
    """The composed configuration of a single run, interpolations not yet resolved."""
    hydra = hydra_for(request.folders)
    if not request.names_hydra:
        with suppress(HydraException, OmegaConfBaseException):              # what it refuses is told by the whole composition
            return compose_settings(hydra.config_loader, ROOT, request.all_overrides)
    return without_hydra(load(hydra, request.all_overrides, RunMode.RUN))


def required_keys(request: Request) -> set[str]:
    """Keys that the files of the last composition mark with ??? and that were not typed."""
    typed_keys = {override.lstrip("+").partition("=")[0] for override in request.overrides}
    return source.required - typed_keys


def load(hydra: Hydra, overrides: list[str], mode: RunMode) -> DictConfig:
    """Hydra's composition; what it still refuses becomes a UserError with its first lines."""
    try:
        return hydra.compose_config(ROOT, overrides, run_mode=mode)
    except (HydraException, OmegaConfBaseException) as error:
        raise plugin_missing(str(error)) or UserError(reason(error), where="configuration") from error


def plugin_missing(text: str) -> UserError | None:
    """A launcher or sweeper that is a package of its own and is not installed."""
    asked = re.search(r"Could not find 'hydra/(launcher|sweeper)/([\w-]+)'", text)
    if asked is None:
        return None
    kind, name = asked.groups()
    if name in PLUGINS[kind]:
        return UserError(f"hydra/{kind}={name} is not installed", where="command line", command=f"pip install {PLUGINS[kind][name]}")
    near = nearest(name, PLUGINS[kind])
    return UserError(f"there is no hydra/{kind}={name}", where="command line", nearest=f"hydra/{kind}={near}" if near else None,
                     hint=f"known: {', '.join(PLUGINS[kind])}")


def reason(error: BaseException) -> str:
    """What Hydra or OmegaConf found, without its advice to use "+"."""
    told = str(error) or str(error.__cause__)
    if key := re.match(r"Could not override '([^']+)'", told):
        return f"{key.group(1)} is not a setting"
    lines = [line.strip() for line in told.splitlines() if line.strip() and "+" not in line and "full_key" not in line]
    return "; ".join(lines[:3]).replace(":; ", ": ").rstrip(";.")


def without_hydra(config: DictConfig) -> DictConfig:
    """The settings without Hydra's own node."""
    with open_dict(config):
        config.pop("hydra", None)
    OmegaConf.set_readonly(config, None)
    return config
