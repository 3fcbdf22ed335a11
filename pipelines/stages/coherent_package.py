"""The package of a run with coherent-v9: whether it is one, what training starts from, its batches, what is trained."""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.stages.coherent_settings import check_recompute
from pipelines.stages.packages import tokenizer_of

if TYPE_CHECKING:
    from hierarchos.data.batches import BatchStream
    from hierarchos.models.coherent_v9.config import Config as ModelConfig
    from hierarchos.models.coherent_v9.package import Loaded
    from pipelines.config import Config
    from pipelines.stage import Context

HEADS = ("rwkv_head_size", "h_rwkv_head_size", "l_rwkv_head_size")


def applies(config: Config, folder: str | None = None) -> bool:
    """Whether the run's model is a Hierarchos model: said by model.config, or by the package at `folder`."""
    from hierarchos.models.coherent_v9.package import is_package

    if config.model.source == "fresh":
        return config.model.config.get("model_type") == "hierarchos"
    folder = folder or config.model.path
    return folder is not None and is_package(folder)


def of_run(context: Context) -> bool:
    """The same, once the package is here."""
    return applies(context.config, context.artefacts["acquire"].facts["model"])


def check_model(config: Config, folder: str | None = None) -> None:
    """The configuration resolves, and so does that of the package, at `folder` or model.path."""
    from hierarchos.coherent.limits import check_heads
    from hierarchos.models.coherent_v9.config import resolve
    from hierarchos.models.coherent_v9.package import read_config, weights_of

    if config.model.source == "fresh":
        cfg = resolve({"vocab_size": config.tokenizer.vocab_size, **config.model.config}, "model.config")
    else:
        place = Path(folder or config.model.path)
        cfg = changed(read_config(place), config.model.config)
        weights_of(place)
        if config.tokenizer.source == "auto" and not (place / "tokenizer.json").is_file():
            raise UserError("a Hierarchos package needs tokenizer.json, there is none", where=str(place))
    check_recompute(config, cfg.full_sample_bptt)
    check_heads(cfg)
    trained_names(config, cfg)


def changed(stored: ModelConfig, changes: Mapping[str, object]) -> ModelConfig:
    """A package's configuration with model.config's changes. UserError for one that decides nothing, or that changes a tensor's shape."""
    from hierarchos.models.coherent_v9.config import resolve
    from hierarchos.models.coherent_v9.parameters import parameters

    cfg = resolve({**stored.values, **stored.status, **changes}, "model.config")
    for name in HEADS:
        if isinstance(changes.get(name), int) and cfg[name] != changes[name]:
            raise UserError(f"{name}={changes[name]} decides nothing: the package has h_rwkv_head_size={cfg.h_head} and "
                            f"l_rwkv_head_size={cfg.l_head}", where="model.config")
    before, after = ({spec.name: spec.shape for spec in parameters(one)} for one in (stored, cfg))
    other = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if other:
        held, wanted = (list(shapes[other[0]]) if other[0] in shapes else "absent" for shapes in (before, after))
        raise UserError(f"{other[0]} is {held} in the package, and would be {wanted}", where="model.config",
                        hint="sizes and parts of a package stay as they are; model=coherent_v9 trains another model")
    return cfg


def loaded(context: Context) -> Loaded:
    """The package that this run exported, or the one that it was given, with model.config's changes."""
    from hierarchos.models.coherent_v9.package import load

    exported = context.latest("export")
    if exported is not None:
        return load(exported.folder)
    return with_changes(load(context.artefacts["acquire"].facts["model"]), context.config)


def with_changes(package: Loaded, config: Config) -> Loaded:
    """The package as model.config would have it."""
    changes = config.model.config
    return dataclasses.replace(package, config=changed(package.config, changes)) if changes else package


def start(context: Context) -> tuple[ModelConfig, dict, float]:
    """Configuration, values and warm-up step that training starts from."""
    from hierarchos.data.tokenizer import check_vocabulary
    from hierarchos.models.coherent_v9.config import resolve
    from hierarchos.models.coherent_v9.parameters import initial_values

    config, tokenizer = context.config, tokenizer_of(context)
    if context.artefacts["acquire"].facts["model"] is None:
        cfg = resolve({"vocab_size": tokenizer.size, **config.model.config}, "model.config")
        check_vocabulary(tokenizer, cfg.vocab_size)
        return cfg, initial_values(cfg, config.run.seed), 0.0
    package = loaded(context)
    check_vocabulary(tokenizer, package.config.vocab_size)
    return package.config, package.values, float(package.buffers["memory_gate_warmup_step"])


def stream(context: Context, name: str, batch_size: int, shuffle: bool) -> BatchStream | None:
    """Batches of a token file in the portable order, or None where there is none."""
    from hierarchos.data.portable_order import PortableStream
    from pipelines.stages.packages import batches

    made = batches(context, name, SimpleNamespace(task="causal"), batch_size, shuffle)
    return None if made is None else PortableStream(made.file, made.options, context.config.coherent.length_buckets)


def trained_names(config: Config, cfg: ModelConfig) -> frozenset[str] | None:
    """Tensors that are trained; None: all. An adapter's place is taken by the model's own small tensors."""
    from hierarchos.models.coherent_v9.parameters import parameters

    if config.peft.method == "none":
        return None
    names = frozenset(spec.name for spec in parameters(cfg) if any(part in spec.name for part in config.coherent.trained))
    if not names:
        raise UserError("no tensor is trained", where="coherent.trained", hint="peft=none trains all of them")
    return names
