"""Every rule and filter gives the scores that Transformers' processor of that name gives, token for token and kept for kept."""

import numpy as np
import pytest

from hierarchos.generation.policy import Policy
from hierarchos.generation.rules import apply, rules_of
from hierarchos.kernels.choose import filtered

VOCABULARY, PROMPT = 40, [3, 7, 7, 9]
TOKENS = [*PROMPT, 1, 7, 9, 3, 7]
RULES = [
    {"repetition_penalty": 1.3},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 1},
    {"bad_words_ids": ((5,), (3, 7, 2))},
    {"sequence_bias": (((4,), 2.5), ((7, 11), -3.0))},
    {"min_length": 20},
    {"min_new_tokens": 8},
    {"suppress_tokens": (1, 39)},
    {"begin_suppress_tokens": (2,)},
    {"forced_eos_token_id": (6,)},
    {"forced_bos_token_id": 8},
    {"exponential_decay_length_penalty": (2, 1.4)},
]
FILTERS = [
    {"temperature": 0.6},
    {"top_k": 7},
    {"top_p": 0.7},
    {"min_p": 0.2},
    {"typical_p": 0.5},
    {"epsilon_cutoff": 0.03},
    {"eta_cutoff": 0.06},
    {"temperature": 1.4, "top_k": 20, "top_p": 0.95, "min_p": 0.02, "typical_p": 0.9, "epsilon_cutoff": 0.005, "eta_cutoff": 0.01},
]


def theirs(options, tokens, scores, prompt=4, most=6):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from transformers.generation.utils import GenerationMixin

    config = transformers.GenerationConfig(
        **{"eos_token_id": [2, 6], "pad_token_id": 0, "top_k": 0, "max_length": prompt + most, **options}
    )
    config._eos_token_tensor = torch.tensor([2, 6])

    class Host(GenerationMixin):
        config = transformers.LlamaConfig()

    processors = GenerationMixin._get_logits_processor(Host(), config, input_ids_seq_length=prompt, device="cpu")
    return processors(torch.tensor([tokens]), torch.tensor(scores[None]))[0].numpy()


def as_lists(options):
    return {
        name: [[list(ids), bias] for ids, bias in value]
        if name == "sequence_bias"
        else [list(ids) for ids in value]
        if name == "bad_words_ids"
        else list(value)
        if isinstance(value, tuple)
        else value
        for name, value in options.items()
    }


@pytest.mark.parametrize("count", [4, 5, 9])
@pytest.mark.parametrize("options", RULES, ids=str)
def test_rules(options, count):
    scores = np.random.default_rng(count).standard_normal(VOCABULARY).astype(np.float32) * 3
    rules = rules_of(Policy(eos_token_id=(2, 6), **options), VOCABULARY, 6)
    ours = apply(rules, scores, TOKENS[:count], len(PROMPT))
    assert np.allclose(ours, theirs(as_lists(options), TOKENS[:count], scores), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", FILTERS, ids=str)
def test_filters(options, seed):
    scores = np.random.default_rng(seed).standard_normal(VOCABULARY).astype(np.float32) * 2
    ours = filtered(scores, Policy(do_sample=True, **{"top_k": 0, **options}).drawing)
    expected = theirs({"do_sample": True, **options}, PROMPT, scores)
    assert np.array_equal(np.isinf(ours), np.isinf(expected))
    assert np.allclose(ours[~np.isinf(ours)], expected[~np.isinf(expected)], rtol=1e-6)
