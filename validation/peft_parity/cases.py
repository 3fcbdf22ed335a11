"""Families and kinds of adapters that are compared."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from validation.parity.cases import GPT2_SMALL, NO_DROPOUT, SMALL, TIED, UNTIED, WINDOWED, Case

BIASED = {"attention_bias": True, "mlp_bias": True}
FAMILIES = {
    "llama": (SMALL | BIASED, {"head": "lm_head", "table": "embed_tokens", "norm": "norm", "first": "q_proj"}),
    "qwen2": (SMALL, {"head": "lm_head", "table": "embed_tokens", "norm": "norm", "first": "q_proj"}),
    "qwen3": (SMALL | {"head_dim": 24}, {"head": "lm_head", "table": "embed_tokens", "norm": "norm", "first": "q_proj"}),
    "mistral": (SMALL | {"sliding_window": 8}, {"head": "lm_head", "table": "embed_tokens", "norm": "norm", "first": "q_proj"}),
    "gpt2": (GPT2_SMALL | NO_DROPOUT, {"head": "lm_head", "table": "wte", "norm": "ln_1", "first": "c_attn"}),
}
ENOUGH = 0.8              # of every gate, for PyTorch with its sums in other orders
SEEDS_FILE = Path(__file__).with_name("seeds.json")
SEEDS = json.loads(SEEDS_FILE.read_text(encoding="utf-8")) if SEEDS_FILE.exists() else {}      # of token ids; seeds.py writes them
SETTINGS = ((2, 1e-3, 0.0), (2, 1e-8, 0.01), (10, 1e-8, 0.01))       # AdamW: steps, eps, decay


@dataclass(frozen=True)
class AdapterCase:
    """A model and batch, and the adapter's settings in PEFT's words."""

    case: Case
    name: str
    settings: dict


def cases_of(family: str) -> list[AdapterCase]:
    """All kinds of adapters of a family, on tied and untied models, one row and padded rows."""
    config, words = FAMILIES[family]
    plain = {"r": 4, "lora_alpha": 12, "target_modules": "all-linear"}
    tied = Case(family, "tied, 1x33", config | TIED, 1, 33)
    padded = Case(family, "untied, 3x33, right padding", config | UNTIED, 3, 33, "right")
    few = ["c_attn", "mlp.c_proj"] if family == "gpt2" else ["q_proj", "v_proj", "down_proj"]
    first = "h.0.attn.c_attn" if family == "gpt2" else "layers.0.self_attn.q_proj"
    found = [
        AdapterCase(tied, "all linear", plain),
        AdapterCase(padded, "all linear, rank 3", plain | {"r": 3}),
        AdapterCase(padded, "rsLoRA, patterns", plain | {"use_rslora": True, "target_modules": few, "rank_pattern": {few[0]: 6, few[-1]: 2},
                                                        "alpha_pattern": {few[0]: 5}}),
        AdapterCase(padded, "DoRA", plain | {"use_dora": True}),
        AdapterCase(tied, "DoRA with rsLoRA, one layer", plain | {"use_dora": True, "use_rslora": True, "target_modules": few,
                                                                  "layers_to_transform": [1]}),
        AdapterCase(padded, "saved modules",
                    plain | {"target_modules": few[1:], "modules_to_save": [words["head"], words["norm"], words["table"], first]}),
        AdapterCase(tied, "saved head, tied", plain | {"modules_to_save": [words["head"]]}),
        AdapterCase(tied, "saved embedding, tied", plain | {"modules_to_save": [words["table"]]}),
        AdapterCase(padded, "trained tokens", plain | {"trainable_token_indices": {words["table"]: [7, 31, 90]}}),
        AdapterCase(tied, "trained tokens, tied", plain | {"trainable_token_indices": {words["table"]: [7, 31, 90]}}),
        AdapterCase(padded, "embedding and head", plain | {"target_modules": [*few, words["table"], words["head"]]}),
        AdapterCase(padded, "excluded, full match", plain | {"target_modules": r".*\.(0|1)\..*(proj|c_attn|c_fc)",
                                                             "exclude_modules": few[:1]}),
    ]
    if family in ("llama", "qwen2", "gpt2"):
        found += [AdapterCase(padded, f"bias {bias}", plain | {"bias": bias, "target_modules": few}) for bias in ("lora_only", "all")]
    return [with_seed(case, SEEDS[family][case.name]["seed"]) if case.name in SEEDS.get(family, {}) else case for case in found]


def with_seed(case: AdapterCase, seed: int) -> AdapterCase:
    """The case with other token ids."""
    return replace(case, case=replace(case.case, seed=seed))


__all__ = ["FAMILIES", "SETTINGS", "WINDOWED", "AdapterCase", "cases_of", "with_seed"]
