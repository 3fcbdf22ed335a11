"""Policies that are compared with Transformers token for token, and where their golden tokens lie."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parent / "golden.json"
MODELS = ("llama", "mistral", "gpt2")
PROMPTS = {"short": [3, 7, 7], "long": [11, 2, 5, 30, 5, 2, 5, 30, 17]}
SHARED = {"max_new_tokens": 12, "eos_token_id": [2, 6], "pad_token_id": 0}
POLICIES = {
    "greedy": {},
    "greedy, nothing ends": {"eos_token_id": None},
    "max_length": {"max_new_tokens": None, "max_length": 14},
    "repetition penalty": {"repetition_penalty": 1.6},
    "no repeated pairs": {"no_repeat_ngram_size": 2},
    "bad words": {"bad_words_ids": [[30], [5, 2], [17, 17]]},
    "sequence bias": {"sequence_bias": [[[4], 1.5], [[5, 30], -4.0]]},
    "min length": {"min_length": 15},
    "min new tokens": {"min_new_tokens": 9},
    "forced end": {"forced_eos_token_id": 6, "eos_token_id": 6},
    "suppressed": {"suppress_tokens": [3, 5, 7, 17], "begin_suppress_tokens": [30]},
    "exponential decay": {"exponential_decay_length_penalty": [2, 1.5]},
    "three rules": {"no_repeat_ngram_size": 3, "repetition_penalty": 1.2, "min_new_tokens": 5},
    "beams": {"num_beams": 3},
    "beams, several returned": {"num_beams": 4, "num_return_sequences": 3},
    "beams, long ones": {"num_beams": 3, "length_penalty": 2.0},
    "beams, short ones": {"num_beams": 3, "length_penalty": -1.0, "early_stopping": True},
    "beams, never stopping early": {"num_beams": 3, "early_stopping": "never", "length_penalty": 1.0},
    "beams with rules": {"num_beams": 3, "no_repeat_ngram_size": 2, "min_new_tokens": 4, "repetition_penalty": 1.3},
    "beams, nothing ends": {"num_beams": 2, "eos_token_id": None},
}
# The filters decide which of the tokens remain: with one left, drawing is greedy, and the text can be compared.
POLICIES |= {
    f"sampling, {name} leaves one": {"do_sample": True, "top_k": 0, **options}
    for name, options in {
        "top-k": {"top_k": 1},
        "top-p": {"top_p": 1e-6},
        "min-p": {"min_p": 1.0},
        "epsilon": {"epsilon_cutoff": 0.999},
        "temperature": {"temperature": 1e-4},
    }.items()
}


def options_of(name: str) -> dict:
    """All options of a policy, None where one is switched off."""
    return {**SHARED, **POLICIES[name]}
