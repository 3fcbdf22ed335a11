"""What the stages need of adapters: the one that is trained, and those that are used."""
from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError, nearest
from pipelines.files import write_text

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.models.family import Model
    from hierarchos.models.load import Loaded
    from hierarchos.peft.adapted import Adapted
    from hierarchos.peft.adapter import Rates
    from hierarchos.peft.config import LoraConfig
    from hierarchos.peft.files import AdapterFile
    from hierarchos.peft.start import Start
    from pipelines.config import Config
    from pipelines.config.peft import PeftConfig
    from pipelines.stage import Context

BASE, PARTS = "adapter_base.json", "adapter_start.safetensors"      # in a run directory
EXPRESSION = re.compile(r"[*+?()|\[\]^$\\]")


def trains_adapter(config: Config) -> bool:
    """Whether a run trains an adapter instead of all parameters."""
    return config.peft.method != "none"


def check_trained(config: Config) -> None:
    """An adapter needs a package beside whose weights it is trained."""
    if trains_adapter(config) and config.model.source == "fresh":
        raise UserError("a fresh model has nothing to keep frozen: an adapter is trained beside the weights of a package",
                        where="peft.method", command="peft=none")
    if not trains_adapter(config) and config.precision.base != "fp32":
        raise UserError(f"precision.base={config.precision.base} is for weights that stay frozen, and all are trained",
                        where="configuration", command="peft=lora")


def check_adapters(config: Config, model: Model | None) -> None:
    """Adapters that are used or gone on from are there and fit; the one to train names modules that are there."""
    if trains_adapter(config) and "train" in config.pipeline.stages:
        if model is not None:
            adapted_model(config, model)
        return
    for name, folder in used_folders(config).items():
        from hierarchos.peft.files import attach, open_adapter
        from pipelines.stages.checks import check_path

        check_path(folder, "peft.path" if folder == config.peft.path else f"peft.adapters.{name}")
        file = open_adapter(folder)
        if model is not None and "unmerge" not in config.pipeline.stages:
            attach(model, file, name)


def adapted_model(config: Config, model: Model) -> Adapted:
    """The model with the adapter that the settings describe, or the one in peft.path; the adapter is what is trained."""
    from hierarchos.peft.adapted import adapted, kept_in
    from hierarchos.peft.files import attach

    settings = config.peft
    if settings.path:
        found = with_rates(attach(model, open_path(settings.path)), rates_of(config))
    else:
        found = adapted(model, lora_config(config, model), rates=rates_of(config))
        check_ranks(found)
        check_patterns(settings, found)
    return kept_in(found, config.precision.base)


def check_ranks(model: Adapted) -> None:
    """Matrices as wide as what they stand beside save nothing; and no more parts can be taken from a weight than it has."""
    loras, init = model.adapter.plan.loras.values(), model.adapter.config.init_lora_weights
    sides = {lora.site.name: min(lora.site.inner, lora.site.outer) for lora in loras}
    width = max(sides.values(), default=0)
    for lora in loras:
        if lora.rank > width:
            raise UserError(f"peft.rank={lora.rank} is larger than the model's width of {width}", where="configuration",
                            command=f"peft.rank={min(8, width)}")
        if init in ("pissa", "olora") and lora.rank > sides[lora.site.name]:
            raise UserError(f"peft.init={init} takes parts of each weight: {lora.site.name} has {sides[lora.site.name]}, fewer than "
                            f"peft.rank={lora.rank}", where="configuration", command=f"peft.rank={min(sides.values())}")


def check_patterns(settings: PeftConfig, model: Adapted) -> None:
    """Patterns that no adapted module ends with would decide nothing. PEFT's files may hold such, settings may not."""
    from hierarchos.peft.select import matches

    names = list(model.adapter.plan.loras)
    ends = list(dict.fromkeys(name.rpartition(".")[2] for name in names))
    for key in ("rank_pattern", "alpha_pattern") if settings.config is None else ():
        for pattern in getattr(settings, key):
            if not any(matches(pattern, name) for name in names):
                raise UserError(f"no adapted module is called {pattern}", where=f"peft.{key}", nearest=nearest(pattern, ends, 0.6),
                                hint=f"adapted are: {', '.join(ends)}")


def open_path(path: str) -> AdapterFile:
    """The adapter in peft.path."""
    from hierarchos.peft.files import open_adapter
    from pipelines.stages.checks import check_path

    check_path(path, "peft.path")
    return open_adapter(path)


def with_rates(model: Adapted, rates: Rates) -> Adapted:
    """The same with the learning rates of LoRA+."""
    import dataclasses

    return model.having(dataclasses.replace(model.adapter, rates=rates))


def rates_of(config: Config) -> Rates:
    """Those of LoRA+ where it is asked for. The rate of embeddings is given as it is; an optimizer's groups have theirs as a share."""
    from hierarchos.peft.adapter import EVEN, Rates

    ratio = config.peft.lora_plus_ratio
    return EVEN if ratio is None else Rates(ratio, config.peft.lora_plus_embedding_rate / config.train.learning_rate)


def lora_config(config: Config, model: Model) -> LoraConfig:
    """The settings in the words of PEFT."""
    from hierarchos.peft.config import TASKS, LoraConfig, read_config
    from hierarchos.peft.select import with_percent
    from hierarchos.peft.sites import sites_of
    from pipelines.stages.checks import check_path

    settings = config.peft
    if settings.config:
        check_path(settings.config, "peft.config")
        return read_config(Path(settings.config))
    tokens = {model.family.embedding.removesuffix(".weight"): tuple(settings.trainable_token_indices)}
    found = LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha or 2 * settings.rank, lora_dropout=settings.dropout, use_rslora=settings.rslora,
        use_dora=settings.dora, bias=settings.bias, target_modules=targets(settings.target_modules),
        exclude_modules=tuple(settings.exclude_modules), layers_to_transform=tuple(settings.layers_to_transform) or None,
        layers_pattern=tuple(settings.layers_pattern), rank_pattern=pattern(settings.rank_pattern, "rank_pattern", int),
        alpha_pattern=pattern(settings.alpha_pattern, "alpha_pattern", float), modules_to_save=tuple(settings.modules_to_save),
        trainable_token_indices=tokens if settings.trainable_token_indices else {},
        init_lora_weights=True if settings.init == "default" else settings.init, task_type=TASKS[model.task]).check("peft")
    if settings.parameter_percent is None:
        return found
    return with_percent(found, sites_of(model), model.size, settings.parameter_percent)


def targets(given: str | list[str]) -> str | tuple[str, ...]:
    """all-linear, an expression, or a list; one plain name is a list of one."""
    if isinstance(given, list):
        return tuple(given)
    return given if given == "all-linear" or EXPRESSION.search(given) else (given,)


def pattern(given: Mapping, name: str, kind: type) -> dict:
    """A mapping of ends of names to numbers; nested mappings are names with dots."""
    found = {}
    for key, value in given.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{inner}": number for inner, number in pattern(value, name, kind).items()}
        elif isinstance(value, bool) or not isinstance(value, int | float) or value <= 0 or (kind is int and value != int(value)):
            raise UserError(f"peft.{name}.{key} is {json.dumps(value, default=str)}, not a {'whole ' if kind is int else ''}number above 0",
                            where="configuration")
        else:
            found[key] = kind(value)
    return found


def used_folders(config: Config) -> dict[str, str]:
    """Adapters that evaluate and generate use, by name."""
    if trains_adapter(config) and "train" in config.pipeline.stages:
        return {}
    found = {"default": config.peft.path} if config.peft.path else {}
    for name, folder in config.peft.adapters.items():
        if not isinstance(folder, str):
            raise UserError(f"peft.adapters.{name} takes the folder of an adapter", where="configuration")
        found[name] = folder
    if config.peft.active and config.peft.active not in ("none", *found):
        from hierarchos.errors import nearest

        raise UserError(f"peft.active={config.peft.active} is none of the adapters", where="configuration",
                        nearest=nearest(config.peft.active, found), hint=f"there are: {', '.join(found) or 'none'}, and the word none")
    return found


def with_adapters(loaded: Loaded, config: Config) -> Loaded:
    """The package with the adapters that the settings name."""
    folders = used_folders(config)
    if not folders:
        return loaded
    from hierarchos.peft.load import load_adapters

    opened = load_adapters(loaded, folders)
    return opened if config.peft.active is None else opened.use(None if config.peft.active == "none" else config.peft.active)


def with_base(loaded: Loaded, config: Config) -> Loaded:
    """The package with its frozen weights in the format that precision.base names."""
    import dataclasses

    from hierarchos.peft.adapted import kept_in

    return dataclasses.replace(loaded, model=kept_in(loaded.model, config.precision.base))


def base_line(model: Model) -> str | None:
    """What a narrow format of the base saves, in words."""
    from hierarchos.nn.stored import FLOATS, place_of
    from hierarchos.vulkan.errors import mebibytes

    packed = [spec for spec in model.parameters if spec.stored != FLOATS]
    if not packed:
        return None
    now, floats = sum(place_of(spec).nbytes for spec in packed), sum(4 * spec.size for spec in packed)
    return (f"base: {packed[0].stored} for {len(packed)} weights, {mebibytes(now)} instead of {mebibytes(floats)}: "
            f"saves {mebibytes(floats - now)}")


def start_values(context: Context, loaded: Loaded, model: Adapted) -> Mapping[str, np.ndarray]:
    """Values that training starts from. A run that goes on must have the base that it began with."""
    from hierarchos.peft.identity import base_hash
    from hierarchos.peft.start import Start, takes_part

    config, values = context.config, loaded.values()
    found = base_hash(list(values), values)
    remember_base(context, found, str(loaded.package.folder))
    if config.peft.path:
        file = open_path(config.peft.path)
        if takes_part(file.config):
            raise UserError(f"training cannot go on from an adapter that starts from a part of the base ({file.config.init_lora_weights})",
                            where="peft.path", hint="save it as plain LoRA first (path_initial_model_for_weight_conversion in PEFT)")
        if file.base not in (None, found):
            raise UserError("the adapter was trained on another base: the weights are not those", where="peft.path",
                            hint=f"it was trained on  {file.config.base_model_name_or_path or '?'}  {file.base[:12]}")
        own = {spec.name: file.read(leaf) for spec in model.trained if (leaf := model.adapter.leaf(spec.name))}
        return {**dict(values), **own}
    start = Start(model, values, config.run.seed)
    keep_parts(context, start)
    return start


def remember_base(context: Context, found: str, folder: str) -> None:
    """Notes the identity of the base in the run directory, where there is one; raises UserError where the run began with another one."""
    if context.run is None:                     # a forecast
        return
    path = context.run.path / BASE
    if context.resuming and path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        if before["sha256"] != found:
            raise UserError("the weights of the base are not those that this run began with", where=folder,
                            hint=[f"the run began with  {before['sha256'][:12]}", f"there is now        {found[:12]}"],
                            outcome="no step was done; the checkpoints are as they were")
        return
    write_text(path, json.dumps({"sha256": found, "folder": folder}) + "\n")


def keep_parts(context: Context, start: Start) -> None:
    """What pissa and olora took from the base is kept in the run directory: a run that goes on reads it back, bit for bit."""
    if not start.taken or context.run is None:
        return
    from safetensors import safe_open

    from hierarchos.hub.safetensors_file import write_tensors

    path = context.run.path / PARTS
    if not (context.resuming and path.is_file()):
        for lora in start.taken.values():
            start.part(lora)
        write_tensors(path, {f"{name}.{which}": value for name, part in start.parts.items()
                             for which, value in zip("AB", part, strict=True)})
    with safe_open(path, framework="numpy") as file:
        for name in start.taken:
            module = name.removesuffix(".weight")
            start.parts[module] = (file.get_tensor(f"{module}.A"), file.get_tensor(f"{module}.B"))


def export_adapter(context: Context, model: Adapted, values: Mapping[str, np.ndarray], files: dict[str, str]) -> None:
    """Writes the trained adapter into the stage's folder."""
    from safetensors import safe_open

    from hierarchos.peft.files import save_adapter, targets_of, write_adapter
    from hierarchos.peft.start import as_plain

    base = json.loads((context.run.path / BASE).read_text(encoding="utf-8"))
    config = context.config
    name = config.model.repo if config.model.source == "hub" else str(Path(base["folder"]).resolve())
    parts = context.run.path / PARTS
    if not parts.is_file():
        save_adapter(context.folder, model, values, base_name=name, base_hash=base["sha256"], files=files)
        return
    from dataclasses import replace

    from hierarchos.peft.files import PREFIX

    leaves = {leaf: values[spec.name] for spec in model.trained if (leaf := model.adapter.leaf(spec.name))}
    with safe_open(parts, framework="numpy") as file:
        taken = {name.removesuffix(".A"): (file.get_tensor(name), file.get_tensor(f"{name.removesuffix('.A')}.B"))
                 for name in file.keys() if name.endswith(".A")}                                    # noqa: SIM118
    plain, changed = as_plain(model.adapter, leaves, taken)
    plain = replace(plain, target_modules=targets_of(model), base_model_name_or_path=name)
    write_adapter(context.folder, plain, {PREFIX + leaf: value for leaf, value in changed.items()}, base["sha256"], files)
