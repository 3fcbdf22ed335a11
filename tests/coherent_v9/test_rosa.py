"""ROSA's automaton: the reference's predictions, and the definition by brute force."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchos.models.coherent_v9.config import resolve
from hierarchos.models.coherent_v9.feeds import Rows
from hierarchos.models.coherent_v9.foretell import Foretold, predictions
from hierarchos.models.coherent_v9.rosa import NONE, Automaton
from hierarchos.models.coherent_v9.suffix_ends import PathMarks
from tests.coherent_v9.cases import vectors


def test_predictions_are_those_of_the_reference():
    for vector in vectors()["rosa"]:
        assert Automaton(vector["max_context"]).feed_all(vector["tokens"]) == vector["predictions"]


def by_definition(tokens: list[int], i: int) -> int:
    """What followed the latest earlier end of the longest suffix that ended before."""
    for length in range(i, 0, -1):
        suffix = tokens[i - length + 1 : i + 1]
        for end in range(i - 1, length - 2, -1):
            if tokens[end - length + 1 : end + 1] == suffix:
                return tokens[end + 1]
    return NONE


@given(st.lists(st.integers(0, 3), max_size=40))
def test_the_automaton_is_the_definition(tokens):
    assert Automaton().feed_all(tokens) == [by_definition(tokens, i) for i in range(len(tokens))]


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 9))
def test_a_bounded_history_starts_afresh(tokens, cap):
    told = Automaton(cap).feed_all(tokens)
    assert told == [p for start in range(0, len(tokens), cap) for p in Automaton().feed_all(tokens[start : start + cap])]


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 30))
def test_a_stored_automaton_goes_on_as_it_was(tokens, cut):
    whole, first = Automaton(7), Automaton(7)
    told = whole.feed_all(tokens)
    begun = first.feed_all(tokens[:cut])
    assert begun + Automaton.from_json(first.to_json()).feed_all(tokens[cut:]) == told


def test_time_of_text_grows_with_its_length_not_its_square():
    def seconds(count: int) -> float:
        tokens = [(i * 2654435761 >> 7) % 50 for i in range(count)]
        begun = time.process_time()
        Automaton().feed_all(tokens)
        return time.process_time() - begun

    seconds(1000)
    assert seconds(16000) < 40 * max(seconds(2000), 1e-3)


@pytest.mark.parametrize("period", [1, 2, 7])
def test_repetition_costs_each_token_little(period):
    """Following suffix links would take the square of the length: 200 million links here."""
    tokens = list(range(period)) * (20000 // period)
    made, begun = Automaton(), time.process_time()
    told = made.feed_all(tokens)
    assert made.followed < 32 * 20000 and time.process_time() - begun < 20
    assert told[period:] == [(i + 1) % period for i in range(period, len(tokens))]


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(0, 40))
def test_marks_along_paths_change_no_prediction(tokens, cut):
    plain, kept = Automaton(), Automaton()
    assert kept.feed_all(tokens[:cut]) == plain.feed_all(tokens[:cut])
    kept.paths = PathMarks(kept.link, kept.last_end)
    assert kept.feed_all(tokens[cut:]) == plain.feed_all(tokens[cut:])
    assert kept.to_json() == plain.to_json()


def rows(mask) -> Rows:
    return Rows.of(np.random.default_rng(0).integers(0, 4, np.shape(mask)), mask=mask)


def test_predictions_of_a_batch_are_made_ahead():
    cfg, mask = resolve({"architecture_revision": "v9", "vocab_size": 9, "rosa_max_context": 5}), np.ones((2, 23), int)
    mask[1, 9:] = 0
    given, automata = rows(mask), [Automaton(5), Automaton(5)]
    ahead = Foretold(cfg, given, 8)
    for start in (0, 8, 16):
        assert np.array_equal(ahead.columns(start, min(start + 8, 23)), predictions(automata, given, start, start + 8))
    kept = [Automaton(), Automaton()]
    assert (Foretold(cfg, given, 23, kept).columns(0, 23)[1, 9:] == NONE).all()
    assert [len(automaton.tokens) for automaton in kept] == [23, 9]  # what goes on does not see padding


def test_a_thread_makes_them_while_something_else_waits(monkeypatch):
    """What the device is given first does not wait for the predictions behind it."""
    gate, seen = threading.Event(), []
    monkeypatch.setattr(Automaton, "feed_all", lambda self, tokens: (gate.wait(20), seen.append(len(tokens)), [NONE] * len(tokens))[2])
    ahead = Foretold(resolve({"architecture_revision": "v9", "vocab_size": 9}), rows(np.ones((1, 6), int)), 3)
    assert not seen
    gate.set()
    assert ahead.columns(3, 6).shape == (1, 3) and seen == [3, 3]
