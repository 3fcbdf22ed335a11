"""Decoding with a cache gives the logits of the whole prefix, whatever the lengths of rows and pieces."""

import numpy as np
import pytest

from hierarchos.generation import session as session_module
from hierarchos.generation.cache import RING, cache_specs, decode_graph
from hierarchos.generation.session import Session
from hierarchos.kernels.choose import Drawing
from tests.generation.twins import TwinProgram, TwinStore, greedy
from tests.models.twin import CONFIGS, model_and_values, run_logits


def twin_session(name, rows, capacity=24, hidden=False):
    model, values = model_and_values(name)
    return model, values, Session(model, TwinStore(values), rows, capacity, TwinProgram, hidden)


@pytest.mark.parametrize("name", CONFIGS)
def test_cached_logits_equal_those_of_the_whole_prefix(name, monkeypatch):
    monkeypatch.setattr(session_module, "CHUNKS", (1, 4))
    model, values, session = twin_session(name, rows=2)
    ids = np.random.default_rng(5).integers(0, 41, (2, 16))
    found = session.extend([ids[0, :9], ids[1, :3]])  # pieces of 4, 4, 1; the second row ends in the first
    whole = [run_logits(model, values, ids[row : row + 1]) for row in (0, 1)]
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


def test_layers_with_a_window_keep_a_ring(monkeypatch):
    """With 3 + 4 slots for 24 positions, pieces and single tokens still see what the whole prefix sees."""
    monkeypatch.setattr(session_module, "CHUNKS", (1, 4))
    monkeypatch.setattr("hierarchos.generation.cache.RING", 4)
    model, values, session = twin_session("mistral", rows=2)
    window = max(w for w in model.config.windows if w)
    slots = {spec.shape[1] for spec in cache_specs(decode_graph(model, 2, 1, 24)).values()}
    assert slots == {window + 4} and window + 4 < 16 < RING
    ids = np.random.default_rng(6).integers(0, 41, (2, 16))
    whole = [run_logits(model, values, ids[row : row + 1])[0] for row in (0, 1)]
    found = session.extend([ids[0, :7], ids[1, :2]])
    for step in range(9):
        for row, at in enumerate((6 + step, 1 + step)):
            assert np.abs(found[row] - whole[row][at]).max() < 1e-12
        found = session.extend([[ids[0, 7 + step]], [ids[1, 2 + step]]])


def test_rows_can_be_reordered():
    model, values, session = twin_session("llama", rows=3)
    ids = np.random.default_rng(7).integers(0, 41, (3, 6))
    session.extend([ids[0, :4], ids[1, :5], ids[2, :3]])
    session.reorder([1, 1, 0])
    assert session.filled == [5, 5, 4]
    found = session.extend([[3], [9], [7]])
    for row, prefix in enumerate(([*ids[1, :5], 3], [*ids[1, :5], 9], [*ids[0, :4], 7])):
        assert np.abs(found[row] - run_logits(model, values, [prefix])[0, -1]).max() < 1e-12


def test_steps_run_ahead_and_leave_nothing_behind():
    model, values, session = twin_session("llama", rows=1)
    ids = [1, 2, 3]
    expected = greedy(model, values, ids, 6)
    session.extend([ids[:-1]])
    found = [next(tokens)[0] for tokens in [session.steps([ids[-1]], 12, Drawing())] for _ in range(6)]
    assert found == expected and session.filled == [8]
    again = session.extend([expected[-1:]])  # the six that ran ahead were forgotten
    assert np.abs(again[0] - run_logits(model, values, [[*ids, *expected]])[0, -1]).max() < 1e-12


def test_hidden_states_are_what_the_head_reads():
    _model, _values, session = twin_session("llama", rows=1, hidden=True)
    session.extend([[1, 2, 3, 4, 5]])
    assert sum(piece.shape[1] for piece in session.seen_hidden) == 5
