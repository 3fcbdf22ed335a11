"""One graph over a whole sample: cut into segments that are computed again, it gives the gradients of the uncut one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hierarchos.models.coherent_v9.config import resolve
from hierarchos.models.coherent_v9.feeds import Rows, automata, plan_spans
from hierarchos.training.coherent.state import CoherentState
from hierarchos.training.coherent.step import CoherentStep, Objective, chunk_length
from hierarchos.training.coherent.whole_sample import combine, planned
from tests.coherent_v9.cases import case, worst
from tests.coherent_v9.twin import Twin
from tests.tiny import Optimizer

GOLDEN = case("full_random")
WHOLE = {"full_sample_bptt": True, "detach_every_n_steps": None, "training_chunk_size": 4}
MASK = np.array([[1] * 11, [1] * 6 + [0] * 5])
KINDS = {
    "as it is": {},
    "limits that hold, a plan at each token": {"max_commitment_cost_for_backward": 1e-3, "max_ponder_cost_for_backward": 1.5,
                                               "h_stride": 1, "ltm_value_alignment_weight": 0.0},
}


def rows() -> Rows:
    ids = np.random.default_rng(3).integers(0, GOLDEN.cfg.vocab_size, MASK.shape)
    return Rows.of(ids, mask=MASK, weights=np.linspace(0.5, 1.5, MASK.size).reshape(MASK.shape))


@cache
def learned(kind: str, device, recompute: bool) -> tuple[dict, dict, dict]:
    """(losses, gradients by name, the state that goes on) of one batch."""
    cfg = resolve({**GOLDEN.facts["config"], **WHOLE, **KINDS[kind]})
    state = CoherentState(cfg, device, Optimizer(), 1.0)
    state.load(GOLDEN.values)
    step = CoherentStep(state, 2, 11, True, Objective(), persist=True, recompute=recompute)
    assert step.machine.length == (4 if recompute else 11)
    state.clear_gradients()
    step.batch(rows(), 1.0, rows().mass(), None)
    found = {spec.name: state.store.read(f"gradients/{spec.name}") for spec in state.specs}
    end = step.running().parts
    step.machine.close()
    return step.losses, found, end


@pytest.mark.parametrize("kind", KINDS)
def test_segments_give_the_gradients_of_the_uncut_graph(kind, device):
    losses, uncut, end = learned(kind, device, False)
    found, cut, ours = learned(kind, device, True)
    sampled = "alignment_cost", "objective"                # sampled columns weigh by their segment's tokens, not by their number
    assert all(found[name] == pytest.approx(losses[name], rel=2e-5, abs=1e-6) for name in losses if name not in sampled)
    floor = 1e-4 * max(np.abs(value).max() for value in uncut.values())
    wanted = {name: value for name, value in uncut.items() if name != "val_proj.weight"}
    error, name = worst(cut, wanted, floor)
    assert error < 3e-5, name
    assert cut["val_proj.weight"].any() == (kind == "as it is")
    assert all(np.abs(ours[name] - end[name]).max() < 1e-5 for name in end)         # not that of the first segment, which ran last


def test_segments_give_the_gradients_of_float64(device):
    cfg = resolve({**GOLDEN.facts["config"], **WHOLE})
    twin, whole = Twin(cfg, GOLDEN.values, 2, padded=True), rows()
    twin.rosa = automata(cfg, 2)
    twin.forward(whole, 0, 11)
    twin.backward(whole, 0, 11)
    _, cut, _ = learned("as it is", device, True)
    wanted = {name.partition("/")[2]: value for name, value in twin.gradients.items() if "val_proj" not in name}
    error, name = worst(cut, wanted, 1e-4 * max(np.abs(value).max() for value in wanted.values()))
    assert error < 3e-5, name


def test_limits_apply_to_the_whole_sample_once():
    cfg = resolve({**GOLDEN.facts["config"], **WHOLE, "h_stride": 3, "max_commitment_cost_for_backward": 1.0})
    whole = rows()
    spans = plan_spans(whole, 4)
    plans = [planned(cfg, whole, span) for span in spans]
    assert plans == [4.0, 1.0, 1.0]                        # columns 0, 3 of both rows; 6 and 9 of the first
    parts = [{name: np.array([value]) for name in ("ce", "z_loss", "ponder_cost", "commitment_cost", "alignment_cost")}
             for value in (1.0, 2.0, 3.0)]
    found = combine(cfg, parts, spans, plans, max_ce=0.0)
    assert found.losses["ponder_cost"] == pytest.approx((4 + 2 + 3) / 6)
    assert found.losses["commitment_cost"] == pytest.approx((8 * 1 + 6 * 2 + 3 * 3) / 17)
    assert found.slopes[0] == 1.0 and combine(cfg, parts, spans, plans, max_ce=0.1).slopes[0] == 0.0
    assert found.slopes[2] == cfg.commitment_loss_weight   # 1.7 lies above the limit, the gradient goes on


def test_the_tape_is_as_long_as_a_segment():
    cfg = resolve({**GOLDEN.facts["config"], **WHOLE})
    assert (chunk_length(cfg, 11, False), chunk_length(cfg, 11, True), chunk_length(cfg, 3, True)) == (11, 4, 3)
