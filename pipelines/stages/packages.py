"""What several stages need: the model with its values, and batches of a token file."""
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.stages.adapters import adapted_model, start_values, trains_adapter, with_adapters, with_base
from pipelines.stages.tokenize import TOKENIZER

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.data.batches import BatchStream
    from hierarchos.data.tokenizer import TextTokenizer
    from hierarchos.models.family import Model
    from hierarchos.models.load import Loaded
    from pipelines.config import Config
    from pipelines.stage import Context


def loaded_package(folder: str | Path, changes: dict) -> Loaded:
    """A package, with fields of its config.json changed by `model.config`."""
    from hierarchos.models.load import load_model

    return load_model(folder, changes)


def package_of(context: Context) -> Loaded:
    """The package that this run exported, or the one that it was given."""
    exported = context.latest("export")
    source, config = context.artefacts["acquire"].facts["model"], context.config
    if exported is not None and not trains_adapter(config):
        return loaded_package(exported.folder, {})
    loaded = loaded_package(source, config.model.config)
    if exported is None:
        return with_base(with_adapters(loaded, config), config)
    from hierarchos.peft.load import load_adapters

    return with_base(load_adapters(loaded, {"default": exported.folder}), config)


def start_model(context: Context, tokenizer: TextTokenizer) -> tuple[Model, Callable[[], dict[str, np.ndarray]]]:
    """The model that training starts from, and what gives its values: fresh ones from run.seed, or the package's."""
    from hierarchos.data.tokenizer import check_vocabulary
    from hierarchos.nn.initialise import InitialValues

    config, folder = context.config, context.artefacts["acquire"].facts["model"]
    if folder is None:
        model = fresh_model(config, tokenizer)
        return model, partial(InitialValues, model.parameters, config.run.seed)
    loaded = loaded_package(folder, config.model.config)
    for note in loaded.notes:
        context.progress.line(f"model: {note}")
    check_vocabulary(tokenizer, loaded.model.config.vocab_size)
    if trains_adapter(config):
        model = adapted_model(config, loaded.model)
        return model, partial(start_values, context, loaded, model)
    return loaded.model, loaded.values


def fresh_model(config: Config, tokenizer: TextTokenizer) -> Model:
    """The architecture of model.config, with the tokenizer's vocabulary and special tokens."""
    from hierarchos.data.tokenizer import check_vocabulary
    from hierarchos.models.registry import resolve

    special = {"bos_token_id": tokenizer.bos_id, "eos_token_id": tokenizer.eos_id, "pad_token_id": tokenizer.pad_id}
    model = resolve({"vocab_size": tokenizer.size, **special, **config.model.config}, "model.config")
    check_vocabulary(tokenizer, model.config.vocab_size)
    return model


def tokenizer_of(context: Context) -> TextTokenizer:
    """The tokenizer that made the tokens."""
    from hierarchos.data.tokenizer import load_tokenizer

    return load_tokenizer(context.artefacts["tokenize"].folder / TOKENIZER)


def batches(context: Context, name: str, model: Model, batch_size: int, shuffle: bool) -> BatchStream | None:
    """The batches of a token file, with tokens hidden where the model is an encoder, or None where there is no such file."""
    from hierarchos.data.batches import BatchStream
    from hierarchos.data.masking import MaskedStream, Masking, Vocabulary
    from hierarchos.data.options import BatchOptions
    from hierarchos.data.token_file import TokenFile

    path = context.artefacts["tokenize"].folder / name
    if not path.exists():
        return None
    data, train = context.config.data, context.config.train
    options = BatchOptions(batch_size=batch_size, sequence_length=train.sequence_length, layout=data.layout, pad_to=data.pad_to,
                           pad_multiple=data.pad_multiple, shuffle=shuffle, seed=context.config.run.seed)
    if model.task == "masked":
        masking = Masking(data.mask_share, data.mask_whole_words)
        return MaskedStream(TokenFile.load(path), options, Vocabulary.of(tokenizer_of(context)), masking)
    return BatchStream(TokenFile.load(path), options)
