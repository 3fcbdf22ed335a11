"""Every policy gives Transformers' tokens, one for one: against golden tokens, and these against Transformers where it is there."""

import json

import numpy as np
import pytest

from hierarchos.generation.policy import Policy, policy_from
from hierarchos.kernels.choose import probabilities
from tests.generation.cases import GOLDEN, MODELS, POLICIES, PROMPTS, options_of
from tests.generation.twins import Letters, generator
from tests.models.twin import run_logits

FOUND = json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_the_golden_ones(name, policy):
    options = {key: value for key, value in options_of(policy).items() if key != "pad_token_id"}
    wanted, ends = policy_from(options, "test"), options["eos_token_id"] or []
    _, _, maker = generator(name)
    for key, ids in PROMPTS.items():
        results = maker.generate([Letters().decode(ids)], wanted, ids=[ids])
        expected = FOUND[name][policy][key]
        assert [list(result.ids) for result in results] == [row[:-1] if row and row[-1] in np.atleast_1d(ends) else row for row in expected]


@pytest.mark.parametrize("policy", POLICIES)
def test_golden_tokens_are_those_of_transformers(policy):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from validation.golden_generation import reference, tokens

    model = reference("llama")
    for key, ids in PROMPTS.items():
        assert tokens(model, ids, policy) == FOUND["llama"][policy][key]


def test_contrastive_search_is_its_definition():
    """Transformers 5 has it no more; here its formula is evaluated on whole prefixes."""
    model, values, maker = generator("llama", penalty_alpha=0.6, top_k=4)
    ids, tokens = PROMPTS["long"], []
    [result] = maker.generate(["x"], Policy(penalty_alpha=0.6, top_k=4, max_new_tokens=6), ids=[ids])
    for _ in range(6):
        p = probabilities(run_logits(model, values, [[*ids, *tokens]])[0, -1])
        best = np.argsort(-p)[:4]
        scores = []
        for token in best:
            h = hidden(model, values, [*ids, *tokens, int(token)])
            h /= np.linalg.norm(h, axis=1, keepdims=True)
            scores.append(0.4 * p[token] - 0.6 * (h[:-1] @ h[-1]).max())
        tokens.append(int(best[int(np.argmax(scores))]))
    assert list(result.ids) == tokens


def hidden(model, values, ids):
    from hierarchos.graph.evaluate import evaluate
    from hierarchos.graph.op import tracing
    from hierarchos.graph.tensor import Graph
    from hierarchos.nn.batch import input_batch

    with tracing(Graph()) as graph:
        graph.outputs["hidden"] = model.forward(model.weights(), input_batch(1, len(ids))).hidden
    feeds = {
        "ids": np.array([ids], np.int32),
        "positions": np.arange(len(ids), dtype=np.int32)[None],
        "segments": np.ones((1, len(ids)), np.int32),
    }
    return evaluate(graph, feeds, values, "float64")[0]["hidden"][0]


def test_beam_sampling_repeats_with_its_seed_and_keeps_what_the_filters_keep():
    _, _, maker = generator("llama")
    settings = {"do_sample": True, "num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 8, "top_k": 6}
    first, again, other = (maker.generate(["abc"], Policy(**settings, seed=seed)) for seed in (1, 1, 2))
    assert first == again and first != other and len(first) == 2 and first[0].score >= first[1].score
