"""The small configurations of every architecture, several variants of each: what the checks against Transformers iterate over."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("tiny_configs.json")
POSITIONS = 80          # of learned position tables, which the table makes shorter than the longest check
RESERVED = 8            # the last ids of a vocabulary: they stand for images and sound in some models
LEARNED = {
    "gpt2": "n_positions", "gpt-sw3": "n_positions", "openai-gpt": "n_positions", "gpt_neo": "max_position_embeddings",
    "gpt_bigcode": "n_positions", "gptj": "n_positions", "codegen": "n_positions", "ctrl": "n_positions", "mpt": "max_seq_len",
    "opt": "max_position_embeddings", "biogpt": "max_position_embeddings", "trocr": "max_position_embeddings",
    **dict.fromkeys(("bert", "roberta", "camembert", "xlm-roberta", "data2vec-text", "ernie", "electra", "distilbert", "roc_bert",
                     "rembert", "albert", "bert-generation", "roformer", "xlm", "flaubert", "megatron-bert", "roberta-prelayernorm",
                     "xlm-roberta-xl", "esm"), "max_position_embeddings"),
}  # model_type -> the field that says how many learned positions there are


@dataclass(frozen=True)
class Fault:
    """Why the reference's eager attention is not the oracle of a variant, and which is. padded: it is right with padding too."""

    why: str
    attention: str = "sdpa"
    padded: bool = True


FAULTS = {
    ("gemma", "bidirectional"): Fault("eager attention stays causal, and so does sdpa where there is padding", padded=False),
    **{("falcon", name): Fault("eager attention adds the ALiBi bias twice, once in the mask and once to the scores")
       for name in ("base", "7b", "rw")},
}  # (model_type, variant); of Transformers 5.24
# What `from_pretrained` of Transformers 5.24 cannot load, not even its own: such packages are read into a model that is there already.
UNLOADABLE = {("trocr", "sinusoidal"): "it leaves the table of positions, which no package holds, without data"}
# Models that take no positions (their own would count padding on the left), and one whose causal mask lets padding on the left be seen.
NO_POSITIONS = ("trocr", "roformer", "xlm")


@dataclass(frozen=True, eq=False)
class Tiny:
    """One variant. auto: class of Transformers that builds it; where None, `class_name` of the configuration's module does.
    seed: of the noise on the weights. why: what this variant is for."""

    model_type: str
    name: str
    config: dict
    auto: str | None = "AutoModelForCausalLM"
    class_name: str | None = None
    seed: int = 1
    why: str = ""

    @property
    def fault(self) -> Fault:
        """How the reference has to be run for this variant."""
        return FAULTS.get((self.model_type, self.name), Fault("", "eager"))

    @property
    def raw(self) -> dict:
        """What config.json would hold, in the spelling of the table."""
        return {"model_type": self.model_type, **self.config}


@cache
def table() -> dict:
    """model_type -> {auto, class, variants: {name: {config, seed, why, auto}}}."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def variants(model_type: str) -> list[Tiny]:
    """All variants of an architecture; KeyError where the table has none."""
    entry = table()[model_type]
    return [Tiny(model_type, name, _longer(model_type, variant["config"]), variant.get("auto", entry.get("auto")), entry.get("class"),
                 variant.get("seed", 1), variant.get("why", "")) for name, variant in entry["variants"].items()]


def batch(tiny: Tiny, length: int, padding: str, seed: int = 3) -> dict:
    """The arrays of `validation.parity.cases.batch_arrays`, for two rows, of which the second is padded on one side.

    The first is full: some models take the length of the longest row into the computation."""
    import numpy as np

    padding = "right" if tiny.model_type in NO_POSITIONS else padding
    generator = np.random.default_rng([seed, length])
    ids = generator.integers(6, tiny.config["vocab_size"] - RESERVED, (2, length)).astype(np.int32)
    segments = np.ones((2, length), np.int32)
    if tiny.fault.padded:
        segments[1, slice(length - 2 - length // 9, None) if padding == "right" else slice(None, 2 + length // 9)] = 0
    ids[segments == 0] = 0
    positions = np.maximum(segments.cumsum(axis=1) - 1, 0).astype(np.int32)
    first = np.diff(segments, axis=1, prepend=0) == 1
    labels = np.where((segments == 0) | first, -100, ids).astype(np.int32)
    targets = np.concatenate([labels[:, 1:], np.full((2, 1), -100, np.int32)], axis=1)
    weights = (targets != -100).astype(np.float32)
    return {"ids": ids, "positions": positions, "segments": segments, "labels": labels, "targets": targets, "token_weights": weights}


def _longer(model_type: str, config: dict) -> dict:
    return {**config, LEARNED[model_type]: POSITIONS} if model_type in LEARNED else config
