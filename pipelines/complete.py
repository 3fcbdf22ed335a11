"""What a word on the command line could become; asked by the scripts of `hierarchos completion`. Imports nothing heavy."""
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipelines.config.root import SHORT
from pipelines.settings.folders import Folders
from pipelines.settings.schema import Setting, groups, settings

OPTIONS = ("--multirun", "--from", "--until", "--only", "--force",
           "--explain", "--dry-run", "--cfg", "--fail-fast", "--config-dir", "--help", "-m")
TAKE_SETTINGS = ("config", "plan", "chat", "tokens")
TAKE_RUNS = ("resume", "rerun", "crate", "compare", "report")


def candidates(first: str, word: str, commands: Iterable[str]) -> list[str]:
    """Whole words that begin with `word`; first: the word after `hierarchos`, which may be the one being typed."""
    folders = Folders.find()
    pipelines = folders.options("pipeline")
    if word == first or not first:
        found: Iterable[str] = [*pipelines, *commands, "--help", "--version"]
    elif first not in pipelines and first not in TAKE_SETTINGS:
        return words_of_command(first, word, folders)
    elif word.startswith("-"):
        found = OPTIONS
    elif "=" in word:
        key = word.partition("=")[0]
        found = [f"{key}={value}" for value in values(key.lstrip("+~"), folders)]
    else:
        found = [*keys(word, folders), *(pipelines if first in ("config", "plan") else ())]
    return sorted(name for name in found if name.startswith(word))


def words_of_command(first: str, word: str, folders: Folders) -> list[str]:
    """Names that a command takes."""
    shells, names = ("bash", "zsh", "fish"), [group for group in groups() if "." not in group]
    if first in TAKE_RUNS:
        found = runs("run", "sweep") if first in ("compare", "report") else runs("run")
        return sorted(path for path in found if path.startswith(word))
    known = {"completion": shells, "schema": [*names, "--write"], "check": [str(path) for path in own_experiments(folders)],
             "doctor": ("--json",), "devices": ("--json",), "architectures": ("--json",), "bench": ("--json", "--profile")}
    return sorted(name for name in known.get(first, ()) if name.startswith(word))


def keys(word: str, folders: Folders) -> list[str]:
    """Groups of files and settings: "model=", "train." and, once a group is typed, "train.steps="."""
    chosen = [f"{group}=" for group in folders.groups() if "/" not in group and group != "pipeline"] + [f"{name}=" for name in SHORT]
    parent = word.rpartition(".")[0]
    inside = [f"{key}=" for key in settings() if key.rpartition(".")[0] == parent]
    return chosen + inside + [f"{group}." for group in groups() if group.rpartition(".")[0] == parent]


def values(key: str, folders: Folders) -> list[str]:
    """Files of a group, choices of a setting, true and false, or runs that can be continued."""
    if key in folders.groups():
        return folders.options(key)
    if key == "run.resume":
        return ["latest", *runs("run")]
    setting = settings().get(SHORT.get(key, key))
    return values_of(setting) if setting is not None else []


def values_of(setting: Setting) -> list[str]:
    """What a setting takes, where that is a few words; else its default, to be changed."""
    if setting.limits.choices:
        return list(setting.limits.choices)
    if setting.kind is bool:
        return ["true", "false"]
    return [str(setting.default)] if setting.kind in (int, float) and setting.default is not None else []


def runs(*kinds: str) -> list[str]:
    """Directories of runs ("run") and of sweeps ("sweep")."""
    return [str(path.parent) for kind in kinds for path in Path("outputs").glob(f"*/*/{kind}.json")]


def own_experiments(folders: Folders) -> list[Path]:
    """Experiment files of this folder."""
    own = Path("configs/experiment")
    return sorted(own.rglob("*.yaml")) if own.is_dir() else []
