"""What is compared: model types, configurations and batches. Widths and lengths pass tile edges and are multiples of nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hierarchos.errors import UserError, nearest
from hierarchos.models.registry import FAMILIES
from validation.tiny import Tiny, batch, table, variants

SMALL = {"vocab_size": 131, "hidden_size": 72, "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 6,
         "num_key_value_heads": 2, "head_dim": 12, "max_position_embeddings": 96}
EDGE = {"vocab_size": 259, "hidden_size": 136, "intermediate_size": 264, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 34, "max_position_embeddings": 160}
GPT2_SMALL = {"vocab_size": 131, "n_embd": 72, "n_layer": 2, "n_head": 6, "n_positions": 96}
GPT2_EDGE = {"vocab_size": 259, "n_embd": 136, "n_layer": 2, "n_head": 4, "n_positions": 160, "n_inner": 264}
NO_DROPOUT = {"embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0}
TIED, UNTIED = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}


ANY_SEED = 3              # of token ids that nobody chose
CANDIDATES = range(3, 99)                # seeds of token ids, by the rule of seeds.py
ENOUGH = 1.3              # times a gate, for PyTorch's stand-ins
STAND_INS = 24            # of PyTorch: its sums shuffled, its results rounded another way
CLEAR = 4                 # root mean square errors of float32 PyTorch that inputs of relu and clamp must keep away from kinks


@dataclass(frozen=True)
class Case:
    """One variant: configuration and batch. padding: none, right, left, packed (several documents in a row).

    tiny: where the variant comes from `validation.tiny`. seed: of the token ids, chosen by the rule of `seeds.py`,
    which looks at PyTorch only, so that its float32 agrees with itself."""

    model_type: str
    name: str
    config: dict = field(hash=False)
    rows: int = 1
    length: int = 7
    padding: str = "none"
    seed: int = ANY_SEED
    tiny: Tiny | None = field(default=None, hash=False)


def shapes(model_type: str, small: dict, edge: dict) -> list[Case]:
    """The batches that every family runs: tied and untied, batch 1 and 3, each padding, over tile edges."""
    return [
        Case(model_type, "tied, 1x7", small | TIED),
        Case(model_type, "untied, 1x72", small | UNTIED, 1, 72),
        Case(model_type, "untied, 3x33, right padding", small | UNTIED, 3, 33, "right"),
        Case(model_type, "tied, 3x72, left padding", small | TIED, 3, 72, "left"),
        Case(model_type, "untied, 2x65, packed", small | UNTIED, 2, 65, "packed"),
        Case(model_type, "untied, 3x129, wide", edge | UNTIED, 3, 129, "right"),
    ]


WINDOWED = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
CASES: dict[str, list[Case]] = {
    "gpt2": [
        *shapes("gpt2", GPT2_SMALL | NO_DROPOUT, GPT2_EDGE | NO_DROPOUT),
        Case("gpt2", "scores divided by layer", GPT2_SMALL | NO_DROPOUT | {"scale_attn_by_inverse_layer_idx": True}, 3, 33, "left"),
        Case("gpt2", "unscaled scores, relu, inner 50",
             GPT2_SMALL | NO_DROPOUT | {"scale_attn_weights": False, "activation_function": "relu", "n_inner": 50}, 1, 33),
    ],
    "llama": [
        *shapes("llama", SMALL, EDGE),
        Case("llama", "biases", SMALL | TIED | {"attention_bias": True, "mlp_bias": True}, 3, 33, "right"),
        Case("llama", "rope llama3", SMALL | UNTIED | {"rope_parameters": LLAMA3}, 1, 72),
        Case("llama", "rope linear", SMALL | UNTIED | {"rope_parameters": LINEAR}, 1, 72),
        Case("llama", "one key head, eps 1e-5", SMALL | TIED | {"num_key_value_heads": 1, "rms_norm_eps": 1e-5}, 3, 33, "left"),
    ],
    "mistral": [
        *shapes("mistral", SMALL | {"sliding_window": 8}, EDGE | {"sliding_window": 70}),
        Case("mistral", "no window", SMALL | UNTIED | {"sliding_window": None}, 3, 33, "right"),
    ],
    "qwen2": [
        *shapes("qwen2", SMALL | WINDOWED, EDGE | WINDOWED),
        Case("qwen2", "no window", SMALL | TIED, 3, 33, "right"),
    ],
    "qwen3": [
        *shapes("qwen3", SMALL | WINDOWED | {"head_dim": 24}, EDGE | WINDOWED),
        Case("qwen3", "attention bias, no window", SMALL | TIED | {"attention_bias": True}, 3, 33, "right"),
    ],
}

SEEDS = json.loads(Path(__file__).with_name("seeds.json").read_text(encoding="utf-8"))      # see Case.seed; seeds.py writes them


def names() -> list[str]:
    """The model types that have cases: all families that the table of small configurations knows."""
    return sorted(name for name in FAMILIES if name in CASES or name in table())


def checked(model_types: list[str]) -> list[str]:
    """The same; raises `UserError` for one that has no cases."""
    for name in model_types:
        if name not in names():
            raise UserError(f"no parity cases for {name!r}", nearest=nearest(name, names()), hint="there are: " + ", ".join(names()))
    return model_types


def case_of(key: tuple[str, str]) -> Case:
    """A case by its model type and name."""
    return next(case for case in cases_of(key[0]) if case.name == key[1])


def cases_of(model_type: str) -> list[Case]:
    """The cases of a family: those above, and each variant of the table in a short and a longer batch, padded on either side."""
    small = [Case(model_type, f"{tiny.name}, 2x{length}, {padding} padding", tiny.config, 2, length, padding, tiny=tiny)
             for tiny in (variants(model_type) if model_type in table() else ()) for length, padding in ((7, "right"), (72, "left"))]
    seeds = SEEDS.get(model_type, {})
    return [replace(case, seed=seeds[case.name]["seed"]) if case.name in seeds else case for case in (*CASES.get(model_type, ()), *small)]


def batch_arrays(case: Case, vocab_size: int) -> dict[str, np.ndarray]:
    """ids, positions, segments, labels (i32 [rows, length]; -100 = not trained), targets and token_weights, seeded by the case.

    Rows have different lengths where there is padding. The first token of a document is no label: what precedes it is not its."""
    if case.tiny:
        return batch(case.tiny, case.length, case.padding, case.seed)
    generator = np.random.default_rng([case.seed, case.rows, case.length])
    shape = (case.rows, case.length)
    ids = generator.integers(6, vocab_size, shape, dtype=np.int32)
    segments = np.stack([row_segments(case, row) for row in range(case.rows)])
    first = np.diff(segments, axis=1, prepend=-1) != 0
    positions = np.stack([row_positions(row) for row in segments])
    ids[segments == 0] = 0
    labels = np.where((segments == 0) | first, -100, ids).astype(np.int32)
    targets = np.concatenate([labels[:, 1:], np.full((case.rows, 1), -100, np.int32)], axis=1)
    weights = (targets != -100).astype(np.float32)
    return {"ids": ids, "positions": positions, "segments": segments, "labels": labels, "targets": targets, "token_weights": weights}


def row_segments(case: Case, row: int) -> np.ndarray:
    """i32 [length]: 0 where padded, 1, 2, ... for the documents of a row."""
    length, filled = case.length, case.length - (5 * row + 2) % (case.length - 1)
    if case.padding == "packed":
        return (1 + (np.arange(length) >= length // 3 + row) + (np.arange(length) >= length // 2 + 3 * row)).astype(np.int32)
    segments = np.ones(length, np.int32)
    if case.padding == "right":
        segments[filled:] = 0
    if case.padding == "left":
        segments[: length - filled] = 0
    return segments


def row_positions(segments: np.ndarray) -> np.ndarray:
    """Positions count from 0 in each document; padding has 0."""
    positions, count, last = np.zeros(len(segments), np.int32), 0, 0
    for index, segment in enumerate(segments):
        count = count + 1 if segment == last else 0
        positions[index], last = (count if segment else 0), segment
    return positions
