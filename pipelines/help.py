"""Help texts, made from the dataclasses and file names alone so that they come at once."""
from __future__ import annotations

import shutil
import textwrap

from pipelines.exits import MEANING
from pipelines.settings.folders import Folders
from pipelines.settings.schema import Setting, groups, settings
from pipelines.settings.values import show

WIDTH = min(110, shutil.get_terminal_size((110, 24)).columns)
FLAGS = {
    "-m, --multirun": "a run for each combination of comma-separated values: -m train.learning_rate=1e-3,3e-4",
    "--explain": "say for each stage whether and why it would run; run nothing",
    "--until STAGE": "end after a stage",
    "--from STAGE": "run a stage and those after it again in the newest run (or that of run.resume), with what is before it kept",
    "--only STAGE": "the same for one stage",
    "--force STAGE": "run a stage although its result is kept; all for every one",
    "--dry-run": "check everything, print the settings and the stages; run nothing",
    "--cfg": "print the settings as YAML; run nothing",
    "--fail-fast": "end a sweep at its first failed run",
    "--config-dir DIR": "look for configuration files in DIR first, then in ./configs, then in the package",
    "--help [GROUP]": "this text, or the settings of one group",
}


def general(folders: Folders, commands: dict[str, str]) -> str:
    """`hierarchos --help`."""
    pipelines = {name: f"{purpose_of(folders, name)}\n{command_of(folders, name)}".lstrip() for name in folders.options("pipeline")}
    codes = {str(code): text for code, text in MEANING.items()}
    return "\n".join(["usage: hierarchos PIPELINE [KEY=VALUE ...]      hierarchos COMMAND", "", "pipelines", *table(pipelines), "",
                      "commands", *table(commands), "", "options of a pipeline", *table(FLAGS), "", "exit status", *table(codes), "",
                      "hierarchos train            is a first run that needs nothing else",
                      "hierarchos train --help     lists every setting"])


def pipeline(name: str, folders: Folders, group: str | None = None) -> str:
    """`hierarchos train --help`: options, groups with files, and every setting with its default and range."""
    chosen = [key for key in settings() if group is None or key == group or key.startswith(group + ".")]
    purpose = f"{purpose_of(folders, name)}\nfor example:\n{command_of(folders, name)}"
    usage = [f"usage: hierarchos {name} [KEY=VALUE ...]", *table({"": purpose})]
    top = [*usage, "", "options", *table(FLAGS), "", "files to choose from", *choices(folders)]
    lines = [] if group else top
    last = None
    for key in chosen:
        parent = key.rpartition(".")[0]
        if parent != last:
            lines += ["", f"{parent}: {groups()[parent]}"]
            last = parent
        lines += describe(settings()[key])
    return "\n".join(lines).strip("\n")


def choices(folders: Folders) -> list[str]:
    """model=..., data=..., experiment=... with the names that are there."""
    names = sorted(group for group in folders.groups() if "/" not in group and group != "pipeline")
    return table({f"{name}=": ", ".join(folders.options(name)) for name in names})


def describe(setting: Setting) -> list[str]:
    """A setting: name and default, then its range or choices and its help."""
    default = "required" if setting.default == "???" else show(setting.default)
    reach = setting.limits.range_text()
    accepted = f" [{' | '.join(setting.limits.choices)}]" if setting.limits.choices else f" [{reach}]" if reach else ""
    text = wrapped(f"{setting.help}{accepted}", WIDTH - 8)
    return [f"  {setting.key}={default}", *(f"      {line}" for line in text)]


def command_of(folders: Folders, name: str) -> str:
    """The first comment of a pipeline's file: the command that runs it."""
    path = folders.file(f"pipeline/{name}")
    first = path.read_text(encoding="utf-8").partition("\n")[0] if path else ""
    return first.lstrip("# ") if first.startswith("# hierarchos") else f"hierarchos {name}"


def purpose_of(folders: Folders, name: str) -> str:
    """The second comment of a pipeline's file: what it is for."""
    path = folders.file(f"pipeline/{name}")
    second = path.read_text(encoding="utf-8").splitlines()[1:2] if path else []
    return second[0].lstrip("# ") if second and second[0].startswith("# ") and "@package" not in second[0] else ""


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, each broken at spaces only; commands stay whole, so that they can be copied."""
    return [part for line in text.splitlines() for part in
            ([line] if line.startswith("hierarchos ") else textwrap.wrap(line, max(20, width), break_on_hyphens=False))] or [""]


def table(rows: dict[str, str]) -> list[str]:
    """Two columns, the second wrapped."""
    width = max(map(len, rows), default=0) + 2
    lines = []
    for name, text in rows.items():
        first, *rest = wrapped(text, WIDTH - width - 2)
        lines += [f"  {name:<{width}}{first}".rstrip(), *(f"  {'':<{width}}{line}" for line in rest)]
    return lines
