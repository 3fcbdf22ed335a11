"""The memory plan of generation is what it allocates; a token costs one run of length 1."""
import pytest

from hierarchos.generation.generator import Generator
from hierarchos.generation.need import generation_need
from hierarchos.generation.session import CHUNKS, chunk_for, chunks_for
from hierarchos.graph.program import compile_program
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Spec
from tests.generation.test_generator import Letters
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
    maker.generate([prompt], max_new_tokens=4)
    need = generation_need(maker.model, device, 1, len(prompt), 4)
    assert device.memory.used - before in (need.total, need.total - need.items.get("transfers", 0))


def test_every_new_token_but_the_first_is_one_run_of_length_one(maker):
    runs = []

    def counting(graph, store):
        program, length = compile_program(graph, store.device, store), graph.nodes[0].specs[0].shape[1]
        run = program.run
        program.run = lambda feeds: (runs.append(length), run(feeds))[1]
        return program

    maker.compile = counting
    maker.generate(["twowords"], max_new_tokens=6)
    assert runs == [16, 1, 1, 1, 1, 1] and len(maker.session.programs) == 2


def test_chunks_are_those_that_a_prompt_runs_through():
    for tokens in range(1, 3 * CHUNKS[-1]):
        used, left = set(), tokens
        while left > 0:
            used.add(chunk_for(left))
            left -= chunk_for(left)
        assert chunks_for(tokens) == sorted(used, reverse=True)
