"""From a composed configuration to a frozen `Config`: nothing missing, nothing out of range, parts that fit each other."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException

from hierarchos.errors import UserError
from pipelines import mixture
from pipelines.config import Config
from pipelines.settings.names import nearest_setting
from pipelines.settings.problems import raise_all
from pipelines.settings.schema import Setting, settings
from pipelines.settings.typed import build
from pipelines.settings.values import LARGEST, check, convert

INSTEAD = {"generate.prompt": "generate.prompts"}       # what need not be given where the other is
WIDTHS = ("hidden_size", "n_embd", "d_model")        # of a config.json, by family
NEEDS = (("model", "local", "path"), ("model", "hub", "repo"), ("data", "files", "path"), ("data", "hub", "repo"),
         ("tokenizer", "file", "path"), ("tokenizer", "hub", "repo"))              # group, its source, the setting that this source needs


def resolve(composed: DictConfig, needed_by: Mapping[str, list[str]] | None = None, required: Iterable[str] = ()) -> Config:
    """The typed configuration.

    needed_by: for each group the stages that read it; missing values of other groups are fine. required: keys that a file
    marks with ??? and nothing typed sets. Raises UserError with everything that is missing, wrong or contradictory.
    """
    values = _container(composed)
    raise_all(_missing(values, set(required), needed_by))
    flat = {key: _at(values, key) for key in settings()}
    raise_all([error for key, value in flat.items() if value != "???" for error in check(settings()[key], value, "configuration")])
    for key, value in flat.items():
        _put(values, key, _final(settings()[key], value))
    config = build(Config, values)
    raise_all(conflicts(config, set(required)))
    return config


def as_dict(config: Config) -> dict:
    """Nested plain dictionaries, as they go into config.yaml."""
    return dataclasses.asdict(config)


def _missing(values: dict, required: set[str], needed_by: Mapping[str, list[str]] | None) -> list[UserError]:
    found = []
    for key, known in settings().items():
        value = _at(values, key)
        if value != "???" and not (key in required and value == known.default):
            continue
        if (other := INSTEAD.get(key)) is not None and _at(values, other) is not None:
            continue
        stages = ["every stage"] if needed_by is None else needed_by.get(key.partition(".")[0], [])
        if stages:
            where, text = f"needed by {', '.join(stages)}", known.help
            found.append(UserError(f"{key} has to be given", where=where, hint=text, command=f"{key}=..."))
    return found


def _container(composed: DictConfig) -> dict:
    try:
        return OmegaConf.to_container(composed, resolve=True, throw_on_missing=False)
    except (InterpolationResolutionError, OmegaConfBaseException) as error:
        lines = str(error).splitlines()
        key = getattr(error, "full_key", None) or "configuration"
        asked = lines[0].partition("'")[2].partition("'")[0]
        near = nearest_setting(asked) if "not found" in lines[0] else None
        what = "something that is not there" if "not found" in lines[0] else "a value that does not fit"
        raise UserError(f"{key} refers to {what}: {lines[0].rpartition(': ')[2]}", where="configuration",
                        nearest=f"${{{near}}}" if near else None) from error


def _at(values: dict, key: str) -> object:
    for part in key.split("."):
        values = values[part]
    return values


def _put(values: dict, key: str, value: object) -> None:
    *parents, last = key.split(".")
    for part in parents:
        values = values[part]
    values[last] = value


def _final(setting: Setting, value: object) -> object:
    """The value in its own type, `~` of a path expanded, single texts in a list where a list is accepted."""
    value = convert(setting, value)
    if setting.limits.path and value is not None and value != "???":
        return [str(Path(item).expanduser()) for item in value] if isinstance(value, list) else str(Path(value).expanduser())
    return value


def conflicts(config: Config, required: set[str] = frozenset()) -> list[UserError]:
    """Settings that are fine alone but do not fit each other, with both values in the message.

    A missing value in `required` is not told here: it has been, or no stage of the pipeline needs it."""
    found = []
    train, model = config.train, config.model
    positions = train.batch_size * train.sequence_length
    if positions > LARGEST:
        found.append(_conflict(f"train.batch_size={train.batch_size} x train.sequence_length={train.sequence_length} is more than {LARGEST}"
                               " tokens", "train.accumulation=... with a smaller train.batch_size"))
    found += _adapter_conflicts(config) + _rows_conflicts(config) + mixture.mistakes(config.data)
    if train.steps is not None and train.schedule.warmup > train.steps:
        found.append(_conflict(f"train.schedule.warmup={train.schedule.warmup:g} is longer than train.steps={train.steps}"))
    context = model.config.get("max_position_embeddings", model.config.get("n_positions"))
    if model.source == "fresh" and isinstance(context, int) and train.sequence_length > context:
        found.append(_conflict(f"train.sequence_length={train.sequence_length} is longer than the model's context of {context}"))
    found += _model_conflicts(config, context)
    if Path(config.pipeline.name).name != config.pipeline.name or config.pipeline.name.startswith("."):
        found.append(_conflict(f"pipeline.name={config.pipeline.name} must be the name of one folder"))
    if config.export.path is not None and config.export.path == config.run.dir:
        found.append(_conflict(f"export.path={config.export.path} is the run directory itself"))
    for group, source, name in NEEDS:
        given = getattr(config, group)
        if group == "data" and given.mix:
            continue
        if given.source == source and getattr(given, name) is None and f"{group}.{name}" not in required:
            found.append(_conflict(f"{group}.source={source} needs {group}.{name}", f"{group}.{name}=..."))
    return found


def _adapter_conflicts(config: Config) -> list[UserError]:
    """A fresh model has no weights to stand beside; matrices as wide as the model are no smaller than what they replace."""
    if config.peft.method == "none" or config.model.source != "fresh":
        return []
    width = next((config.model.config[name] for name in WIDTHS if name in config.model.config), None)
    if isinstance(width, int) and config.peft.rank > width:
        return [_conflict(f"peft.rank={config.peft.rank} is larger than the model's width of {width}", f"peft.rank={min(8, width)}")]
    return []


def _rows_conflicts(config: Config) -> list[UserError]:
    """A step of more sequences than there can be: where a row is one sequence and data.max_rows limits them."""
    train, data, step = config.train, config.data, config.train.batch_size * config.train.accumulation
    one_each = data.layout == "pad" and data.on_long_row != "split"
    if "train" not in config.pipeline.stages or not one_each or data.max_rows is None or step <= data.max_rows:
        return []
    what = (f"a step of train.batch_size={train.batch_size} x train.accumulation={train.accumulation} is more than "
            f"data.max_rows={data.max_rows}")
    fits = max(1, data.max_rows // train.batch_size)
    return [_conflict(what, f"train.accumulation={fits}" if train.batch_size <= data.max_rows else f"train.batch_size={data.max_rows}")]


def _model_conflicts(config: Config, context: object) -> list[UserError]:
    """A fresh model against the tokenizer and the text that is to be generated."""
    if config.model.source != "fresh":
        return []
    found, rows, new = [], config.model.config.get("vocab_size"), config.generate.max_new_tokens
    trained = config.tokenizer.source in ("auto", "train")
    if trained and isinstance(rows, int) and rows < config.tokenizer.vocab_size:
        what = f"model.config.vocab_size={rows} is smaller than tokenizer.vocab_size={config.tokenizer.vocab_size}"
        found.append(UserError(what, where="configuration", hint="leave model.config.vocab_size out: it comes from the tokenizer"))
    if config.tokenizer.source == "model":
        found.append(_conflict("tokenizer.source=model needs a model that has one; a fresh one has none", "tokenizer.source=train"))
    if "generate" in config.pipeline.stages and isinstance(context, int) and new >= context:
        found.append(_conflict(f"generate.max_new_tokens={new} is longer than the model's context of {context}"))
    return found


def _conflict(what: str, command: str | None = None) -> UserError:
    return UserError(what, where="configuration", command=command)
