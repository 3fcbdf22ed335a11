"""Settings that were given and would decide nothing: refused, since whoever gave them expects something."""
from __future__ import annotations

from collections.abc import Sequence

from hierarchos.errors import UserError
from pipelines.config import Config

# group, setting, the source that reads it, what to type to have it read
READ_BY = (("model", "path", "local", "model=local"), ("model", "repo", "hub", "model=hub"), ("data", "path", "files", "data=files"),
           ("data", "repo", "hub", "data=hub"), ("tokenizer", "path", "file", "tokenizer.source=file"),
           ("tokenizer", "repo", "hub", "tokenizer.source=hub"))


def without_effect(config: Config, words: Sequence[str]) -> list[UserError]:
    """Mistakes of a command line (`words`) and its files. A source that was typed wins over what a file says about another one."""
    typed = {word.lstrip("+~").partition("=")[0] for word in words}
    found = []
    for group, name, source, command in READ_BY:
        given = getattr(config, group)
        chosen = {group, f"{group}.source"} & typed
        if getattr(given, name) is not None and given.source != source and (not chosen or f"{group}.{name}" in typed):
            found.append(_unread(f"{group}.{name}", getattr(given, name), f"{group}.source={given.source}", command))
    if "train.epochs" in typed and config.train.steps is not None:
        found.append(_unread("train.epochs", f"{config.train.epochs:g}", f"train.steps={config.train.steps}", "train.steps=null"))
    if "peft.lora_plus_embedding_rate" in typed and config.peft.lora_plus_ratio is None:
        found.append(_unread("peft.lora_plus_embedding_rate", f"{config.peft.lora_plus_embedding_rate:g}", "peft.lora_plus_ratio=null",
                             "peft.lora_plus_ratio=16"))
    if "data.max_rows" in typed and config.data.mix:
        found.append(_unread("data.max_rows", config.data.max_rows, "data.mix", "data.mix.NAME.max_rows=..."))
    if config.export.repo is not None and "upload" not in config.pipeline.stages:
        stages = ",".join([*map(str, config.pipeline.stages), "upload"])
        found.append(_unread("export.repo", config.export.repo, "a pipeline without the stage upload", f"pipeline.stages=[{stages}]"))
    return found


def _unread(key: str, value: object, other: str, command: str) -> UserError:
    return UserError(f"{key}={value} decides nothing beside {other}", where="configuration", command=command)
