"""The command line: `hierarchos PIPELINE [KEY=VALUE ...]` and a few commands. Imports nothing heavy before it must."""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from hierarchos import __version__
from hierarchos.errors import UserError, nearest
from pipelines import exits
from pipelines.settings.folders import Folders

COMMANDS = {
    "chat": "talk with a model through its chat template [KEY=VALUE]",
    "tokens": "show rows as the model is trained on them, and audit the chat template [KEY=VALUE]",
    "devices": "list the Vulkan devices",
    "doctor": "look at drivers, limits and features, and test the arithmetic",
    "architectures": "list the model families that can be trained and run [--json]",
    "bench": "measure the speed of training steps and kernels; lora: beside PEFT on the processor [NAMES] [--json]",
    "config": "print all settings, with the file and line of each [PIPELINE] [KEY=VALUE] [--provenance]",
    "schema": "print JSON Schema of the settings, for editors [GROUP] [--write]",
    "completion": "print a script that completes words in your shell: bash, zsh or fish",
    "plan": "say what a run would do and need, and how long it would take, before it starts [PIPELINE] [KEY=VALUE]",
    "resume": "continue an unfinished run, the newest or the given one [RUN]",
    "rerun": "repeat a finished run from its directory and compare the results [RUN] [--tolerance X] [device=SELECT]",
    "crate": "describe a run directory as a Workflow Run RO-Crate, for archives [RUN] [--zip]",
    "compare": "put runs side by side: settings that differ, figures, the best RUN RUN ... | SWEEP [--csv | --json]",
    "report": "write one HTML page about a run or a sweep: curves, texts, time, memory RUN|SWEEP [--to FILE]",
    "check": "check configuration files without running anything [FILES]",
}
FLAGS = {"-m": "multirun", "--multirun": "multirun", "--explain": "explain", "--dry-run": "dry_run", "--cfg": "cfg",
         "--fail-fast": "fail_fast"}
VALUED = {"--from": ("run.begin",), "--until": ("run.until",), "--only": ("run.begin", "run.until"), "--force": ("run.force",)}


@dataclass
class Words:
    """A command line in parts."""

    first: str | None = None
    rest: list[str] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    config_dir: str | None = None
    help: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return exits.guarded(lambda: dispatch(words))


def dispatch(words: list[str]) -> int:
    """Help, version, a command, or a pipeline."""
    if words in (["--version"], ["-V"]):
        return say(f"hierarchos {__version__}")
    if words[:1] == ["--complete"]:
        return complete(words[1:])
    if words and words[0] in COMMANDS:
        return command(words[0], words[1:])
    parts = split(words)
    folders = Folders.find(parts.config_dir)
    if parts.first in COMMANDS:
        return command(parts.first, [word for word in words if word != parts.first])
    if parts.first is None or parts.first == "help":
        return no_pipeline(parts, folders)
    if parts.first not in folders.options("pipeline"):
        raise unknown(parts.first, folders)
    if parts.help:
        return pipeline_help(parts, folders)
    return pipeline(parts, folders)


def split(words: list[str]) -> Words:
    """Sorts flags from the pipeline's name and its overrides."""
    parts, pending = Words(), iter(words)
    for word in pending:
        if word in ("-h", "--help"):
            parts.help = True
        elif word in FLAGS:
            parts.flags.add(FLAGS[word])
        elif word.partition("=")[0] in VALUED:
            flag, _, value = word.partition("=")
            value = value or next(pending, "")
            if not value or value.startswith("-") or "=" in value:
                raise UserError(f"{flag} needs the name of a stage", where="command line", command=f"{flag} train")
            parts.rest += [f"{key}={value}" for key in VALUED[flag]]
        elif word.partition("=")[0] == "--config-dir":
            parts.config_dir = word.partition("=")[2] or next(pending, "")
            if not parts.config_dir or parts.config_dir.startswith("-"):
                raise UserError("--config-dir needs a folder", where="command line", command="--config-dir configs")
        elif word.startswith("-"):
            known = [*FLAGS, *VALUED, "--help", "--version", "--config-dir"]
            near = nearest(word, known)
            raise UserError(f"{word} is not an option", where="command line", nearest=near,
                            hint="settings are written without dashes:  train.steps=100" if "=" in word or not near else ())
        elif parts.first is None and "=" not in word:
            parts.first = word
        else:
            parts.rest.append(word)
    return parts


def pipeline(parts: Words, folders: Folders) -> int:
    """Runs a pipeline once, sweeps it, or only looks."""
    words = parts.rest + (["sweep.fail_fast=true"] if "fail_fast" in parts.flags else [])
    if "fail_fast" in parts.flags and "multirun" not in parts.flags:
        raise UserError("--fail-fast is for sweeps", where="command line", hint="add -m and a setting with several values")
    looks = [name for name in ("cfg", "dry_run", "explain") if name in parts.flags]
    if looks and "multirun" in parts.flags:
        return import_module("pipelines.sweep").look(parts.first, words, folders)
    if looks:
        return import_module("pipelines.look").look(parts.first, words, folders, looks[0])
    exits.stop_on_terminate()
    if "multirun" in parts.flags:
        return import_module("pipelines.sweep").sweep(parts.first, words, folders)
    return run(parts.first, words, folders)


def run(name: str, words: list[str], folders: Folders) -> int:
    """One run."""
    execute = import_module("pipelines.execute")
    job = execute.prepare(name, words, folders)
    try:
        execute.run(job)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; to continue:  hierarchos {name} run.resume=latest") from None
    return exits.DONE


def command(name: str, rest: list[str]) -> int:
    """A command that is no pipeline; its module has `run(words) -> status` and a docstring that is its help."""
    module = import_module(f"pipelines.commands.{name}")
    if any(word in ("-h", "--help") for word in rest):
        return say((module.__doc__ or "").strip())
    run_command: Callable[[list[str]], int] = module.run
    return run_command(rest)


def complete(words: list[str]) -> int:
    """What the scripts of `hierarchos completion` ask: a candidate a line."""
    first, word = [*words, "", ""][:2]
    return say("\n".join(import_module("pipelines.complete").candidates(first, word, COMMANDS)))


def no_pipeline(parts: Words, folders: Folders) -> int:
    """No word that could be a pipeline: help, or a message when there are settings."""
    if parts.rest and parts.first is None:
        raise UserError("which pipeline?", where="command line", command=f"hierarchos train {' '.join(parts.rest)}")
    return say(import_module("pipelines.help").general(folders, COMMANDS))


def pipeline_help(parts: Words, folders: Folders) -> int:
    """`hierarchos train --help [GROUP]`."""
    group = parts.rest[0] if parts.rest else None
    schema = import_module("pipelines.settings.schema")
    if group is not None and group not in schema.groups() and group not in schema.settings():
        raise import_module("pipelines.settings.names").unknown_setting(group, "--help")
    return say(import_module("pipelines.help").pipeline(parts.first, folders, group))


def unknown(word: str, folders: Folders) -> UserError:
    """A first word that is neither a pipeline nor a command."""
    names = folders.options("pipeline")
    return UserError(f"{word} is neither a pipeline nor a command", where="command line", nearest=nearest(word, [*names, *COMMANDS]),
                     hint=f"pipelines: {', '.join(names)}; commands: hierarchos --help")


def say(text: str) -> int:
    """Prints a text."""
    print(text)
    return exits.DONE


if __name__ == "__main__":
    sys.exit(main())
