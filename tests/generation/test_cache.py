"""Decoding with a cache gives the logits of the whole prefix, whatever the lengths of rows and pieces."""
import numpy as np
import pytest

from hierarchos.generation import session as session_module
from hierarchos.generation.session import Session
from hierarchos.graph.evaluate import evaluate
from tests.models.twin import CONFIGS, model_and_values, run_logits


class TwinStore:
    """A store in NumPy memory."""

    def __init__(self, values):
        self.memory = dict(values)

    def allocate(self, arena, specs):
        self.memory |= {name: np.zeros(spec.shape, np.float64 if spec.dtype == "f32" else np.int32) for name, spec in specs.items()}

    def zero(self, name):
        self.memory[name][...] = 0

    def free(self, arena):
        self.memory = {name: value for name, value in self.memory.items() if not name.startswith("cache/")}


class TwinProgram:
    def __init__(self, graph, store):
        self.graph, self.store = graph, store

    def run(self, feeds):
        return evaluate(self.graph, feeds, self.store.memory, "float64")[0]

    def close(self):
        pass


def twin_session(name, rows, capacity=24):
    model, values = model_and_values(name)
    return model, values, Session(model, TwinStore(values), rows, capacity, TwinProgram)


@pytest.mark.parametrize("name", CONFIGS)
def test_cached_logits_equal_those_of_the_whole_prefix(name, monkeypatch):
    monkeypatch.setattr(session_module, "CHUNKS", (1, 4))
    model, values, session = twin_session(name, rows=2)
    ids = np.random.default_rng(5).integers(0, 41, (2, 16))
    found = session.extend([ids[0, :9], ids[1, :3]])       # pieces of 4, 4, 1; the second row ends in the first
    whole = [run_logits(model, values, ids[row:row + 1]) for row in (0, 1)]
    assert np.abs(found[0] - whole[0][0, 8]).max() < 1e-12
    assert np.abs(found[1] - whole[1][0, 2]).max() < 1e-12
    for step in range(7):
        found = session.extend([[ids[0, 9 + step]], [ids[1, 3 + step]]])
        assert np.abs(found[0] - whole[0][0, 9 + step]).max() < 1e-12
        assert np.abs(found[1] - whole[1][0, 3 + step]).max() < 1e-12


def test_a_row_that_gets_nothing_stays_as_it_is():
    model, values, session = twin_session("llama", rows=2)
    ids = np.random.default_rng(5).integers(0, 41, 12)
    session.extend([ids[:5], ids[:7]])
    session.extend([ids[5:6], []])
    session.extend([ids[6:7], []])
    found = session.extend([[], ids[7:8]])
    assert np.abs(found[1] - run_logits(model, values, ids[None, :8])[0, 7]).max() < 1e-12


def test_reset_forgets():
    session = twin_session("mistral", rows=1)[2]
    first = session.extend([[1, 2, 3]])
    session.extend([[4, 5]])
    session.reset()
    assert np.array_equal(session.extend([[1, 2, 3]]), first)
