"""`data.mix`: several sources by name. Each takes what `data` says (not max_rows), and its own settings before that."""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from hierarchos.errors import UserError, nearest
from pipelines.config.data import DataConfig

PLACES = ("source", "path", "repo", "revision", "subset", "split", "streaming")      # where rows are: acquire knows their content
OWN = (*PLACES, "format", "documents", "rows", "max_rows", "shuffle_buffer", "columns", "prompt_template", "template", "merge_same_role",
       "system")
WEIGHT = 1.0                   # of a source that names none


def sources(data: DataConfig) -> dict[str, DataConfig]:
    """The settings of each source by name; of a single one under the name ""."""
    if not data.mix:
        return {"": data}
    return {name: source(data, entry) for name, entry in data.mix.items()}


def source(data: DataConfig, entry: Mapping) -> DataConfig:
    """`data` with the settings of an entry. A path means files and a repo the Hub, where no source is named."""
    given = {key: value for key, value in entry.items() if key != "weight"}
    given.setdefault("source", "files" if "path" in given else "hub" if "repo" in given else data.source)
    if "columns" in given:
        given["columns"] = dataclasses.replace(data.columns, **given["columns"])
    if "path" in given:
        paths = given["path"]
        given["path"] = [expanded(path) for path in paths] if isinstance(paths, list) else expanded(paths)
    return dataclasses.replace(data, **{"mix": {}, "max_rows": None, **given})


def expanded(path: str) -> str:
    """`~` as the home folder."""
    return str(Path(path).expanduser())


def weights(data: DataConfig) -> dict[str, float]:
    """The weight of each source."""
    return {name: float(entry.get("weight", WEIGHT)) for name, entry in data.mix.items()}


def content_settings(data: DataConfig) -> dict:
    """What the entries say about content: all but where rows are."""
    return {name: {key: value for key, value in entry.items() if key not in PLACES} for name, entry in data.mix.items()}


def found_of(found: Mapping, name: str) -> Mapping:
    """What `acquire` found of a source."""
    return found["mix"][name] if name else found


def mistakes(data: DataConfig) -> list[UserError]:
    """Everything that is wrong with the entries, and settings beside them that nothing reads."""
    told = [error for name, entry in data.mix.items() for error in entry_mistakes(name, entry)]
    beside = [key for key in ("path", "repo") if data.mix and getattr(data, key) is not None]
    return told + [UserError(f"data.{key}={getattr(data, key)} decides nothing beside data.mix", where="configuration",
                             command=f"data.mix.NAME.{key}=...") for key in beside]


def entry_mistakes(name: str, entry: object) -> list[UserError]:
    """Unknown keys, wrong types and ranges, a source without its place."""
    where = "configuration"
    if not isinstance(entry, Mapping):
        return [UserError(f"data.mix.{name} takes the settings of a source, not {entry!r}", where=where,
                          hint="for example  {weight: 0.3, path: rows.jsonl}")]
    known = ("weight", *OWN)
    told = [UserError(f"data.mix.{name}.{key} is not a setting of a source", where=where, nearest=(near := nearest(key, known)),
                      hint=() if near else f"it has: {', '.join(known)}") for key in entry if key not in known]
    told += [error for key, value in entry.items() if key in known for error in value_mistakes(name, key, value)]
    if told:
        return told
    given = source(DataConfig(), entry)
    lacking = [f"data.mix.{name}.{key}" for kind, key in (("files", "path"), ("hub", "repo"))
               if given.source == kind and getattr(given, key) is None]
    return [UserError(f"data.mix.{name}.source={given.source} needs {key}", where=where, command=f"{key}=...") for key in lacking]


def value_mistakes(name: str, key: str, value: object) -> list[UserError]:
    """A value against the setting that it stands for."""
    from pipelines.settings.schema import settings
    from pipelines.settings.values import check

    prefix, where = f"data.mix.{name}", "configuration"
    if key == "weight":
        right = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
        return [] if right else [UserError(f"{prefix}.weight takes a number above 0, not {value!r}", where=where)]
    if key != "columns":
        return check(dataclasses.replace(settings()[f"data.{key}"], key=f"{prefix}.{key}"), value, where)
    if not isinstance(value, Mapping):
        return [UserError(f"{prefix}.columns takes names of columns, not {value!r}", where=where, hint="for example  {text: body}")]
    names = [field.name for field in dataclasses.fields(DataConfig().columns)]
    return [UserError(f"{prefix}.columns.{column} is not a column that is read", where=where, nearest=nearest(column, names))
            for column in value if column not in names] + [
        error for column, text in value.items() if column in names
        for error in check(dataclasses.replace(settings()[f"data.columns.{column}"], key=f"{prefix}.columns.{column}"), text, where)]
