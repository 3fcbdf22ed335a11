"""The settings as JSON Schema (draft 2020-12), made from the dataclasses, for editors that complete and check YAML while it is typed."""
from __future__ import annotations

from pipelines.settings.folders import GLOBAL_GROUPS, Folders
from pipelines.settings.schema import Setting, groups, settings

DRAFT = "https://json-schema.org/draft/2020-12/schema"
NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
REFERENCE = {"type": "string", "pattern": r"\$\{.+\}|^\?\?\?$"}          # ${train.steps} and ??? stand for any value
LIMITS = {"above": "exclusiveMinimum", "at_least": "minimum", "below": "exclusiveMaximum", "at_most": "maximum"}
LINE = "# yaml-language-server: $schema="


def group_schema(group: str) -> dict:
    """The settings below one group, as files of that group hold them."""
    return {"$schema": DRAFT, "title": group, **below(group), "properties": {"defaults": DEFAULTS, **below(group)["properties"]}}


def whole_schema() -> dict:
    """All settings, as files of experiment/, pipeline/ and local/ hold them."""
    top = dict.fromkeys(key.partition(".")[0] for key in settings())
    parts = {name: below(name) if name in groups() else value_schema(settings()[name]) for name in top}
    return {"$schema": DRAFT, "title": "hierarchos", "type": "object", "additionalProperties": False,
            "properties": {"defaults": DEFAULTS, "hydra": {"type": "object"}, **parts}}


DEFAULTS = {"type": "array", "description": "Files that this one builds on, for example  - override /model: gpt2_tiny"}


def below(group: str) -> dict:
    """An object with the settings and groups directly below `group`."""
    found = {key.rpartition(".")[2]: value_schema(setting) for key, setting in settings().items() if key.rpartition(".")[0] == group}
    found |= {key.rpartition(".")[2]: below(key) for key in groups() if key.rpartition(".")[0] == group}
    return {"type": "object", "description": groups().get(group, ""), "additionalProperties": False, "properties": found}


def value_schema(setting: Setting) -> dict:
    """One setting: type, limits, default and help."""
    known = {"description": setting.help} | ({} if setting.default == "???" else {"default": setting.default})
    if setting.kind is None and not setting.limits.accepts:
        return known
    kinds = [NAMES[kind] for kind in setting.limits.accepts] if setting.kind is None else [NAMES[setting.kind]]
    if setting.optional:
        kinds.append("null")
    if setting.limits.choices:
        return known | {"anyOf": [{"enum": [*setting.limits.choices, *([None] if setting.optional else [])]}, REFERENCE]}
    one = {"type": kinds if len(kinds) > 1 else kinds[0]}
    one |= {LIMITS[name]: limit for name in LIMITS if (limit := getattr(setting.limits, name)) is not None}
    if setting.item is not None:
        one["items"] = {"type": NAMES[setting.item]}
    return known | (one if "string" in kinds else {"anyOf": [one, REFERENCE]})


def files(folders: Folders) -> dict[str, dict]:
    """File name in configs/schema/ -> schema: one for each group that has files, and the whole."""
    named = {group.partition("/")[0] for group in folders.groups()} - set(GLOBAL_GROUPS)
    return {"hierarchos.json": whole_schema()} | {f"{group}.json": group_schema(group) for group in sorted(named) if group in groups()}


def editor_line(name: str) -> str:
    """The comment by which editors find the schema of a file: "experiment/mine" -> a path relative to that file."""
    group, depth = name.partition("/")[0] if "/" in name else "", name.count("/")
    schema = group if group in groups() and group not in GLOBAL_GROUPS else "hierarchos"
    return f"{LINE}{'../' * depth}schema/{schema}.json"
