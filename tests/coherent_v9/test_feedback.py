"""Feedback: gradients, prepared writes and objectives of the reference; what is accepted."""

from __future__ import annotations

import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.generation.coherent.feedback import CLIP, Feedback
from hierarchos.models.coherent_v9.feeds import Rows
from hierarchos.models.coherent_v9.memory import CORRECTION, FastMemory, prepared_gradients
from tests.coherent_v9.cases import case


@pytest.fixture(scope="module")
def feedback(device):
    golden = case("ltm_paths")
    made = Feedback(golden.cfg, golden.values, device)
    yield made
    made.close()


def rows() -> Rows:
    t = case("ltm_paths").tensors
    return Rows.of(t["feedback.input_ids"], t["feedback.labels"])


@pytest.mark.parametrize(("name", "reject"), [("learn", False), ("reject", True)])
def test_a_write_is_that_of_the_reference(name, reject, feedback):
    golden, wanted = case("ltm_paths"), case("ltm_paths").group(f"feedback.{name}.")
    facts, empty = golden.facts["feedback"][name], FastMemory.empty(golden.cfg)
    assert feedback.objective(rows(), empty, reject) == pytest.approx(facts["loss_before"], rel=2e-6)
    index, raw = feedback.gradients(rows(), empty, reject)
    assert np.array_equal(index, wanted["topk_idx"])
    assert np.abs(raw - wanted["raw_grads"]).max() < 2e-5 * np.abs(wanted["raw_grads"]).max()
    ready = prepared_gradients(raw, CLIP)
    assert np.abs(ready - wanted["prepared_grads"]).max() < 2e-5 * np.abs(wanted["prepared_grads"]).max()
    tried = feedback.candidate(empty, index, ready, facts["lr"], rows().length, 0.0, 1)
    assert np.abs(tried.values - wanted["fast_after"]).max() < 1e-7
    assert np.linalg.norm(tried.values) == pytest.approx(facts["delta_norm"], rel=1e-4)
    assert feedback.objective(rows(), tried, reject) == pytest.approx(facts["loss_after"], rel=2e-6)


def test_a_write_that_helps_is_kept_without_momentum(feedback):
    empty = FastMemory.empty(feedback.cfg)
    outcome = feedback.learn(rows(), empty, rate=0.05, clock=100.0, source=CORRECTION)
    assert outcome.attempts == 1 and outcome.after < outcome.before
    assert not outcome.memory.momentum.any() and not empty.values.any()
    touched = outcome.memory.values.any(-1)
    assert set(outcome.memory.sources[touched]) == {CORRECTION} and set(outcome.memory.timestamps[touched]) == {114.0}


def test_a_write_that_is_too_large_is_tried_smaller_then_left_out(feedback):
    empty = FastMemory.empty(feedback.cfg)
    outcome = feedback.learn(rows(), empty, rate=1e4)
    assert outcome.memory is None and outcome.attempts == 4 and outcome.after == outcome.before


def memory(cfg, *entries: tuple[int, float]) -> FastMemory:
    """Slots with one number each, which is then the slot's norm."""
    made = FastMemory.empty(cfg)
    for slot, value in entries:
        made.values[slot, 0] = value
    return made


WRITES = {  # before, after, objective after (before: 2.0), accepted
    "none at all": ([], [], 2.0, False),
    "a small one": ([], [(0, 0.9)], 2.0, True),
    "one whose norm is above 1": ([], [(0, 1.1)], 2.0, False),
    "a slot at its limit": ([(0, 3.5)], [(0, 3.9)], 2.0, True),
    "a slot above 4": ([(0, 3.9)], [(0, 4.1)], 2.0, False),
    "a value that is not finite": ([], [(0, float("nan"))], 2.0, False),
    "one that hardly hurts": ([], [(0, 0.5)], 2.0 + 1.9e-6, True),
    "one that hurts": ([], [(0, 0.5)], 2.0 + 2.1e-6, False),
}


@pytest.mark.parametrize("what", WRITES)
def test_what_is_accepted(what, feedback, monkeypatch):
    before, after, objective, accepted = WRITES[what]
    monkeypatch.setattr(feedback, "objective", lambda *_: objective)
    found = feedback.accepted(memory(feedback.cfg, *after), memory(feedback.cfg, *before), rows(), 2.0, False)
    assert (found is not None) is accepted


def test_a_memory_that_is_too_large_is_written_no_more(feedback, monkeypatch):
    monkeypatch.setattr(feedback, "objective", lambda *_: 1.0)
    monkeypatch.setattr("hierarchos.generation.coherent.feedback.LARGEST_SLOT", 1e9)  # of 12 slots none could reach 64 otherwise
    full, over = memory(feedback.cfg, (0, 63.9)), memory(feedback.cfg, (0, 64.1))
    assert feedback.accepted(over, full, rows(), 2.0, False) is None
    assert feedback.accepted(full, memory(feedback.cfg, (0, 63.5)), rows(), 2.0, False) == 1.0


def test_without_a_target_nothing_is_learned(feedback):
    nothing = Rows.of(rows().ids, np.full_like(rows().ids, -100))
    with pytest.raises(UserError, match="there is no target to learn from"):
        feedback.learn(nothing, FastMemory.empty(feedback.cfg))
