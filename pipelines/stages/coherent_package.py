"""The package of a run with coherent-v9: whether it is one, what training starts from, its batches, what is trained."""
from __future__ import annotations

import dataclasses
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
    from hierarchos.models.coherent_v9.config import resolve
    from hierarchos.models.coherent_v9.package import read_config

    fresh = config.model.source == "fresh"
    stored = {"vocab_size": config.tokenizer.vocab_size} if fresh else read_config(folder or config.model.path).values
    cfg = resolve({**stored, **config.model.config}, "model.config")
    check_recompute(config, cfg.full_sample_bptt)


def loaded(context: Context) -> Loaded:
    """The package that this run exported, or the one that it was given, with model.config's changes."""
    from hierarchos.models.coherent_v9.config import resolve
    from hierarchos.models.coherent_v9.package import load

    exported = context.latest("export")
    if exported is not None:
        return load(exported.folder)
    package, changes = load(context.artefacts["acquire"].facts["model"]), context.config.model.config
    if not changes:
        return package
    changed = resolve({**package.config.values, **package.config.status, **changes}, "model.config")
    return dataclasses.replace(package, config=changed)


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
