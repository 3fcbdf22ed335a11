"""The settings of a finished run, read back from its config.yaml, also when settings have come or gone since."""
from __future__ import annotations

import dataclasses
import typing
from pathlib import Path

from hierarchos.errors import UserError
from pipelines.config import Config
from pipelines.run_directory import read_config
from pipelines.settings.names import nearest_setting
from pipelines.settings.typed import build


def saved_config(path: Path) -> tuple[Config, list[str]]:
    """The settings, and notes about those that the run did not know yet. UserError where it had some that are gone."""
    values = read_config(path)
    notes: list[str] = []
    whole = completed(Config, values, "", notes)
    return build(Config, whole), notes


def completed(cls: type, values: dict, prefix: str, notes: list[str]) -> dict:
    """`values` with the defaults of settings that are missing."""
    hints, fields = typing.get_type_hints(cls), {field.name: field for field in dataclasses.fields(cls)}
    if gone := [f"{prefix}{name}" for name in values if name not in fields]:
        raise UserError(f"this version has no setting {gone[0]}", where="config.yaml of the run", nearest=nearest_setting(gone[0]),
                        hint="environment.txt and git.patch in the run directory say which version it was made with")
    found = {}
    for name, field in fields.items():
        if dataclasses.is_dataclass(hints[name]):
            found[name] = completed(hints[name], values.get(name, {}), f"{prefix}{name}.", notes)
        elif name in values:
            found[name] = values[name]
        else:
            found[name] = field.default if field.default is not dataclasses.MISSING else field.default_factory()
            notes.append(f"{prefix}{name} is newer than the run: {found[name]!r}")
    return found


def pinned(config: Config, manifest: dict) -> Config:
    """The same settings with the commits that the run had got from the Hub."""
    facts = manifest.get("stages", {}).get("acquire", {}).get("facts", {})
    for group, name in (("model", "commit"), ("data", "data_commit"), ("tokenizer", "tokenizer_commit")):
        if facts.get(name):
            config = dataclasses.replace(config, **{group: dataclasses.replace(getattr(config, group), revision=facts[name])})
    commits = {name: one["data_commit"] for name, one in facts.get("mix", {}).items() if one.get("data_commit")}
    mix = {name: entry | ({"revision": commits[name]} if name in commits else {}) for name, entry in config.data.mix.items()}
    return dataclasses.replace(config, data=dataclasses.replace(config.data, mix=mix))
