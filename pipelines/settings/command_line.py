"""From the words after `hierarchos PIPELINE` to overrides that Hydra accepts, or to all that is wrong with them.

`+` and `~` are understood but never needed. Texts are taken as they were typed: commas, spaces and `#` need no quotes
beyond the shell's.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException

from hierarchos.errors import UserError
from pipelines.config.root import SHORT
from pipelines.settings.files import choice_errors
from pipelines.settings.folders import Folders
from pipelines.settings.names import unknown_setting
from pipelines.settings.schema import Setting, groups, open_parent, settings
from pipelines.settings.values import check

WHERE = "command line"
CAN_BE_NONE = ("experiment", "local")
NO_EFFECT = {"hydra.run.dir": "run.dir", "hydra.sweep.dir": "run.outputs", "hydra.sweep.subdir": "run.outputs",
             "hydra.output_subdir": "run.dir", "hydra.job.name": "pipeline.name"}


@dataclass
class CommandLine:
    """What was typed: `overrides` for Hydra, `chosen` options by group, `sweeps` the keys with several values."""

    folders: Folders
    multirun: bool = False
    overrides: list[str] = field(default_factory=list)
    chosen: dict[str, list[str]] = field(default_factory=dict)
    sweeps: list[str] = field(default_factory=list)
    errors: list[UserError] = field(default_factory=list)

    def add(self, word: str) -> None:
        """Checks one word and notes the override that it means, or its mistakes."""
        before = len(self.errors)
        override = self._override(word)
        if override is not None and len(self.errors) == before:
            self.overrides.append(override)

    def _override(self, word: str) -> str | None:
        sign = "~" if word.startswith("~") else ""
        typed, equals, raw = word.lstrip("+~").partition("=")
        key = SHORT.get(typed, typed) if typed not in self.folders.groups() else typed
        if key in NO_EFFECT:
            self.errors.append(UserError(f"{key} decides nothing here", where=WHERE, command=f"{NO_EFFECT[key]}=..."))
            return None
        if key.startswith(("hydra.", "hydra/")):
            return word
        if equals and not key:
            self.errors.append(UserError(f"{word} has no key before =", where=WHERE, hint="write key=value without spaces"))
            return None
        if sign:
            return self._removal(key)
        if not equals:
            self.errors.append(not_an_override(word, self.folders.groups()))
        elif key in self.folders.groups():
            return self._choice(key, raw)
        elif key in settings():
            return self._setting(settings()[key], raw)
        elif open_parent(key):
            return f"++{key}={raw}" if self._parse(f"++{key}={raw}") else None
        elif key in groups():
            self.errors.append(UserError(f"{key} is a group of settings", where=WHERE, command=f"{key}.{example(key)}"))
        else:
            self.errors.append(unknown_setting(key, WHERE, self.folders.groups()))
        return None

    def _removal(self, key: str) -> str | None:
        if key in ("experiment", "local"):
            return f"{key}=null"
        if open_parent(key):
            return f"~{key}"
        self.errors.append(UserError(f"~{key} would remove a setting", where=WHERE, hint="give it another value instead"))
        return None

    def _choice(self, group: str, raw: str) -> str | None:
        if group == "pipeline":
            self.errors.append(UserError("the pipeline is the first word", where=WHERE, command=f"hierarchos {raw}"))
            return None
        if (override := self._parse(f"{group}={raw}")) is None:
            return None
        values = values_of(override)
        if None in values and group not in CAN_BE_NONE:
            self.errors.append(self.folders.not_an_option(group, "null", WHERE))
            return None
        options = [str(option) for option in values if option is not None]
        self.errors += [error for option in options for error in choice_errors(self.folders, group, option, WHERE)]
        self.chosen[group] = options
        return f"{group}={raw}"

    def _setting(self, setting: Setting, raw: str) -> str | None:
        if setting.is_text and not self._is_structured(setting, raw):
            return self._text(setting, raw)
        if setting.kind is list and not raw.startswith("["):
            raw = f"[{raw}]"
        override = self._parse(f"{setting.key}={raw}")
        if override is not None:
            for value in values_of(override):
                self.errors += check(setting, value, WHERE)
        return f"{'++' if setting.kind is dict else ''}{setting.key}={raw}"          # of a mapping, whose keys are new ones

    def _is_structured(self, setting: Setting, raw: str) -> bool:
        """A list for a setting that takes one; null; or, in a sweep, several texts."""
        if (raw == "null" and setting.optional) or (raw.startswith("[") and setting.limits.accepts):
            return True
        return self.multirun and (found := parse(f"{setting.key}={raw}")) is not None and found.is_sweep_override()

    def _text(self, setting: Setting, raw: str) -> str:
        quoted = raw[:1] in "'\"" and raw[:1] == raw[-1:] and len(raw) > 1 and parse(f"{setting.key}={raw}")
        text = str(quoted.value()) if quoted else raw
        self.errors += check(setting, text, WHERE)
        return f"{setting.key}={QuotedString(text, Quote.single).with_quotes()}"

    def _parse(self, text: str) -> Override | None:
        """The parsed override; None and a noted mistake when it cannot be read, or is a sweep without -m."""
        key = text.lstrip("+").partition("=")[0]
        override = parse(text)
        if override is None:
            raw = text.lstrip("+").partition("=")[2]
            hint = "one = is enough" if raw.startswith("=") else f"put the value in quotes:  '{key}=\"...\"'"
            self.errors.append(UserError(f"{text.lstrip('+')} cannot be read", where=WHERE, hint=hint))
        elif override.is_sweep_override() and not self.multirun:
            self.errors.append(UserError(f"{text.lstrip('+')} has several values", where=WHERE, hint="add -m to run one job for each"))
            return None
        elif override.is_sweep_override():
            self.sweeps.append(key)
        return override


def parse(text: str) -> Override | None:
    """Hydra's reading of KEY=VALUE, or None where its grammar has none."""
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException:
        return None


def values_of(override: Override) -> list:
    """The value, or every value of a choice or range (none where a sampler draws them)."""
    if not override.is_sweep_override():
        return [plain(override.value())]
    if not override.is_discrete_sweep() or override.value_type.name == "GLOB_CHOICE_SWEEP":
        return []
    return [plain(value) for value in override.sweep_iterator()]


def plain(value: object) -> object:
    """Quoted texts become texts."""
    return [plain(item) for item in value] if isinstance(value, list) else value.text if isinstance(value, QuotedString) else value


def not_an_override(word: str, known: set[str]) -> UserError:
    """A word without "="."""
    if word.endswith((".yaml", ".yml")):
        return UserError(f"{word} is a file, not a setting", where=WHERE, hint="put it into configs/experiment/",
                         command=f"experiment={word.rpartition('/')[2].rpartition('.')[0]}")
    if word in groups() and word not in known and word not in SHORT:
        return UserError(f"{word} is a group of settings", where=WHERE, command=f"{word}.{example(word)}")
    if word in settings() or word in known or word in SHORT:
        return UserError(f"{word} has no value", where=WHERE, command=f"{word}=...")
    near = unknown_setting(word, WHERE).nearest if word.strip() else None
    shown = word if word.strip() else f'"{word}"'
    return UserError(f"{shown} is not KEY=VALUE", where=WHERE, nearest=near, hint="write key=value without spaces")


def example(group: str) -> str:
    """The first setting of a group with a value to type."""
    name = next(name for name in settings() if name.startswith(group + "."))
    return f"{name.removeprefix(group + '.')}=..."
