"""The memory plan of generation is what it allocates; a token costs one run of length 1."""

import pytest

from hierarchos.generation.generator import Generator
from hierarchos.generation.need import generation_need
from hierarchos.generation.policy import Policy
from hierarchos.generation.session import CHUNKS, chunk_for, chunks_for
from hierarchos.graph.program import compile_program
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Spec
from tests.generation.twins import Letters
from tests.models.twin import model_and_values


@pytest.fixture
def maker(device):
    model, values = model_and_values("llama")
    store = StateStore(device)
    store.allocate("parameters", {spec.name: Spec(spec.shape) for spec in model.parameters})
    for name, value in values.items():
        store.write(name, value.astype("float32"))
    maker = Generator(model, Letters(), store)
    yield maker
    maker.close()
    store.free("parameters")


@pytest.mark.parametrize("prompt", ["a", "twowords", "aprompttthatislongerthansixteenletters"])
def test_plan_is_what_generation_allocates(device, maker, prompt):
    before = device.memory.used - maker.store.layout.nbytes
    policy = Policy(max_new_tokens=4)
    maker.generate([prompt], policy)
    need = generation_need(maker.model, device, 1, len(prompt), policy)
    assert device.memory.used - before in (need.total, need.total - need.items.get("transfers", 0))


def lengths_of_runs(maker, policy):
    """Lengths of all runs of programs, in order."""
    runs = []

    def counting(graph, store):
        program, length = compile_program(graph, store.device, store), next(t.shape[1] for t in inputs_named_ids(graph))
        run, submit = program.run, program.submit_again
        program.run = lambda feeds: (runs.append(length), run(feeds))[1]
        program.submit_again = lambda: (runs.append(length), submit())[1]
        return program

    maker.compile = counting
    maker.generate(["twowords"], policy)
    return runs


def inputs_named_ids(graph):
    return [node.outputs[0] for node in graph.nodes if getattr(node.op, "name", "") in ("ids", "step/ids")]


@pytest.mark.parametrize("more", [{}, {"do_sample": True, "top_p": 0.9}])
def test_every_new_token_is_one_run_of_length_one_that_only_gives_tokens_back(maker, more):
    assert lengths_of_runs(maker, Policy(max_new_tokens=6, **more)) == [16] + [1] * 6
    assert set(maker.session.programs["step"].plan.graph.outputs) == {"tokens"}


def test_with_rules_on_the_host_every_token_but_the_first_is_one_run_of_length_one(maker):
    assert lengths_of_runs(maker, Policy(max_new_tokens=6, no_repeat_ngram_size=2)) == [16] + [1] * 5


def test_chunks_are_those_that_a_prompt_runs_through():
    for tokens in range(1, 3 * CHUNKS[-1]):
        used, left = set(), tokens
        while left > 0:
            used.add(chunk_for(left))
            left -= chunk_for(left)
        assert chunks_for(tokens) == sorted(used, reverse=True)
