"""Settings that coherent-v9 does not read, or that contradict each other: refused by name before anything starts."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from hierarchos.errors import UserError

if TYPE_CHECKING:
    from pipelines.config import Config

# settings of generate that decide nothing here, and of evaluate
DRAWING = ("min_new_tokens", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "no_repeat_ngram_size", "stop_strings", "bad_words_ids",
           "suppress_tokens", "num_beams", "length_penalty", "num_return_sequences", "penalty_alpha", "max_time", "options")
MEASURING = ("stride", "choices")
DRAWN = ("texts are drawn by generate.do_sample, temperature, top_k, top_p and repetition_penalty, and end at coherent.entropy_stop and "
         "coherent.eos_stop")
OF_ADAPTERS = "coherent.trained names the tensors that are trained; adapters have no place in this model"


def check_settings(config: Config) -> None:
    """Raises UserError for the first setting that would be ignored."""
    for key, value, hint in unread(config):
        raise UserError(f"{key}={value} is not there for coherent-v9", where="configuration", hint=hint)
    buckets = config.coherent.length_buckets
    if buckets and not config.train.shuffle:
        raise UserError(f"coherent.length_buckets={buckets} sorts drawn rows, and train.shuffle=false draws none", where="configuration")
    if buckets and (config.data.layout, config.data.pad_to) != ("pad", "longest"):
        raise UserError(f"coherent.length_buckets={buckets} saves padding, and rows are not padded to the longest of their batch",
                        where="configuration", command="data.layout=pad data.pad_to=longest")


def check_unused(config: Config) -> None:
    """Raises UserError for a setting of coherent-v9 that was given for another model."""
    for field in fields(config.coherent):
        value = getattr(config.coherent, field.name)
        if value != getattr(type(config.coherent)(), field.name):
            raise UserError(f"coherent.{field.name}={value} decides nothing: this is no coherent-v9 model", where="configuration",
                            hint="leave it out, or train or open a model of model=coherent_v9")


def check_recompute(config: Config, full_sample: bool) -> None:
    """Recomputation cuts the graph of a whole sample; otherwise chunks do, and each keeps what it needs."""
    if config.train.recompute and not full_sample:
        raise UserError("train.recompute=true is for model.config.full_sample_bptt=true", where="configuration",
                        hint="otherwise a smaller model.config.training_chunk_size needs less memory")


def unread(config: Config) -> Iterator[tuple[str, object, str]]:
    """(key, value, what there is instead) of settings that say something else than what is done."""
    precision, optimizer = config.precision, config.train.optimizer
    for key in ("compute", "base"):
        if getattr(precision, key) != "fp32":
            yield f"precision.{key}", getattr(precision, key), "this model is computed in fp32; precision=fp32"
    if optimizer.name != "adamw":
        yield "train.optimizer.name", optimizer.name, "its rule is adamw"
    if optimizer.decay_vectors:
        yield "train.optimizer.decay_vectors", "true", "matrices and rows are decayed, as the model declares each tensor"
    if optimizer.no_decay:
        yield "train.optimizer.no_decay", optimizer.no_decay, "matrices and rows are decayed, as the model declares each tensor"
    for field in fields(config.peft):
        value, usual = getattr(config.peft, field.name), getattr(type(config.peft)(), field.name)
        if field.name != "method" and value != usual:
            yield f"peft.{field.name}", value, OF_ADAPTERS
    for name in DRAWING:
        if getattr(config.generate, name) not in (None, [], {}):
            yield f"generate.{name}", getattr(config.generate, name), DRAWN
    for name in MEASURING:
        if getattr(config.evaluate, name) is not None:
            yield f"evaluate.{name}", getattr(config.evaluate, name), "rows are scored one by one, each from nothing"
