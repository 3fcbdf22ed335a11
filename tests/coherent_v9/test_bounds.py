"""Bounds that no key sets, each reached with weights that are too large; and the toggles that `test_toggles` leaves out."""

from __future__ import annotations

import numpy as np
import pytest

from hierarchos.models.coherent_v9 import state as states
from hierarchos.models.coherent_v9.config import resolve
from hierarchos.models.coherent_v9.feeds import Rows, head_feeds
from hierarchos.training.coherent.state import CoherentState
from hierarchos.training.coherent.step import CoherentStep, Objective
from tests.coherent_v9.cases import case
from tests.coherent_v9.twin import Twin
from tests.tiny import Optimizer

GOLDEN, LENGTH = "full_random", 3


def run(values: dict | None = None, *, training: bool = False, **changes) -> Twin:
    """Three tokens of two rows, with changed weights and configuration; with gradients when training."""
    golden = case(GOLDEN)
    twin = Twin(resolve({**golden.facts["config"], **changes}), {**golden.values, **(values or {})}, 2, training=training)
    rows = Rows.of(golden.tensors["input_ids"][:, :LENGTH])
    twin.logits = twin.forward(rows, 0, LENGTH)
    if training:
        twin.losses = twin.backward(rows, 0, LENGTH)
    return twin


def scaled(factor: float, *names: str) -> dict:
    return {name: case(GOLDEN).values[name].astype(np.float64) * factor for name in names}


def test_the_query_is_limited():
    far, farther = (run(scaled(factor, "qproj.weight")) for factor in (1e7, 1e9))
    assert np.abs(far.logits - farther.logits).max() < 1e-9  # every entry is 12 or -12 in both


def test_what_is_encoded_is_limited():
    far, farther = (run(scaled(factor, "in_proj.weight", "in_proj.bias")) for factor in (1e9, 1e11))
    assert np.abs(far.logits - farther.logits).max() < 1e-6  # every entry is 30 or 0 in both


@pytest.mark.parametrize("logit", [-1e3, -1e6])
def test_a_gate_never_closes_entirely(logit):
    found = run({"ltm_gate_logit": np.array(logit)})
    assert found.tape["gate"] == pytest.approx(np.full_like(found.tape["gate"], 1 / (1 + np.exp(50.0))), rel=1e-9)


def test_a_gate_at_its_bound_has_no_gradient():
    assert not run({"ltm_gate_logit": np.array(-1e3)}, training=True).gradients["gradients/ltm_gate_logit"].any()
    assert run(training=True).gradients["gradients/ltm_gate_logit"].any()


def test_a_decay_at_its_bound_has_no_gradient():
    w0 = case(GOLDEN).values["h_rnn.w0"]
    found = {bias: run({"h_rnn.w0": np.full(w0.shape, bias)}, training=True).gradients["gradients/h_rnn.w0"] for bias in (-50.0, -99.0)}
    assert found[-50.0].any() and not found[-99.0].any()  # -60 is the bound


def test_a_halting_probability_is_never_nothing():
    values = {"h_halt_proj.bias": np.full(1, -1e3)}
    assert (run(values, h_halt_thresh=5e-7).tape["depth"][0] == 1).all()  # 1e-6 is its least
    assert (run(values, h_halt_thresh=1e-5).tape["depth"][0] == 4).all()


def test_the_commitment_of_a_token_is_limited():
    wild = run(scaled(1e3, "context_drift_proj.weight"), training=True, drift_state_clamp=1e4, drift_delta_scale=1e3)
    assert wild.tape["commitment"].max() == 100.0
    assert run(training=True).tape["commitment"].max() < 100.0


def test_a_given_state_is_limited_at_entry():
    cfg = case(GOLDEN).cfg
    packed = {name: np.full_like(value, 1e4) for name, value in states.pack(states.zeros(cfg, 1)).items()}
    packed["h_state"][0, 0, 0] = np.nan
    parts = states.unpack(cfg, packed)
    assert np.isnan(parts["h.n1"][0, 0]) and np.nanmax(parts["h.n1"]) == cfg.recurrent_state_clamp
    assert parts["l.M"].max() == cfg.recurrent_state_clamp
    assert parts["previous"].max() == parts["target"].max() == cfg.context_state_clamp
    assert parts["drift"].max() == cfg.drift_state_clamp


def test_a_writer_is_measured_at_every_stride():
    rows = Rows.of(np.arange(1, 9).reshape(1, 8))
    for stride, position, columns in ((4, 0, [0, 4]), (4, 6, [2, 6]), (8, 3, [5]), (1, 0, list(range(8)))):
        cfg = resolve({**case(GOLDEN).facts["config"], "ltm_value_alignment_stride": stride})
        assert np.nonzero(head_feeds(cfg, rows, 0, 8, position)["samples"][:, 0])[0].tolist() == columns


def test_without_its_weight_there_is_no_z_loss():
    assert run(training=True, z_loss_weight=0.0).losses["z_loss"] == 0.0 < run(training=True).losses["z_loss"]


@pytest.mark.parametrize("whole", [False, True])
def test_a_whole_sample_is_one_chunk(whole, device):
    """Cuts and chunks end gradients; full_sample_bptt has neither."""
    golden = case(GOLDEN)
    changes = {"full_sample_bptt": whole, "detach_every_n_steps": None, "training_chunk_size": 2}
    cfg = resolve({**golden.facts["config"], **changes})
    state = CoherentState(cfg, device, Optimizer(), 1.0)
    state.load(golden.values)
    step = CoherentStep(state, 2, LENGTH, False, Objective())
    rows = Rows.of(golden.tensors["input_ids"][:, :LENGTH])
    state.clear_gradients()
    step.batch(rows, 1.0, rows.mass(), None)
    wanted = run(training=True, **changes).gradients["gradients/l_rnn.x_r"]
    error = np.abs(state.store.read("gradients/l_rnn.x_r") - wanted).max() / np.abs(wanted).max()
    assert bool(error < 1e-4) is whole
    step.machine.close()
