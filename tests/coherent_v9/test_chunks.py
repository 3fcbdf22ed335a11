"""Batches in chunks: carried state, cuts of gradients, shares of the objective, the memory written between chunks."""

from __future__ import annotations

import numpy as np
import pytest

from hierarchos.models.coherent_v9 import feeds
from hierarchos.models.coherent_v9 import state as states
from hierarchos.models.coherent_v9.chunk import FAST
from hierarchos.models.coherent_v9.feeds import plan_spans
from hierarchos.models.coherent_v9.memory import TRAINING, FastMemory, prepared_gradients
from hierarchos.training.coherent.state import CoherentState
from hierarchos.training.coherent.step import CoherentStep, Objective
from tests.coherent_v9.cases import CHUNKED, case, worst
from tests.coherent_v9.twin import Twin
from tests.tiny import Settings


@pytest.mark.parametrize("name", CHUNKED)
def test_shares_of_chunks(name):
    golden = case(name)
    assert abs(golden.rows().mass() - golden.facts["weighted_token_mass"]) < 1e-5
    for span, wanted in zip(plan_spans(golden.rows(), 8), golden.facts["chunk_plan"], strict=True):
        found = vars(span)
        assert all(abs(found[key] - value) < 1e-6 for key, value in wanted.items())


@pytest.mark.parametrize("name", CHUNKED)
def test_chunks_in_float64(name):
    golden, rows = case(name), case(name).rows()
    inner = golden.cfg.ltm_training_mode == "inner-update"
    twin = Twin(golden.cfg, golden.values, len(rows.ids), padded=rows.padded, own_memory=inner)
    fast = FastMemory.empty(golden.cfg, len(rows.ids), "float64") if inner else None
    mass = rows.mass()
    for number, span in enumerate(plan_spans(rows, 8)):
        here = lambda leaf, number=number: golden.tensors[f"chunk{number}.{leaf}"]  # noqa: E731
        logits = twin.forward(rows, span.start, span.end)
        assert np.abs(logits - here("logits")).max() < 2e-5
        assert np.array_equal(twin.tape["index"].swapaxes(0, 1), here("topk_idx"))
        losses = twin.backward(rows, span.start, span.end, span.label_ratio, span.token_ratio)
        assert abs(losses["objective"] * mass - golden.facts["chunks"][number]["chunk_loss_scaled"]) < 2e-4
        if inner:
            raw = twin.tape["d.value"].swapaxes(0, 1) * mass
            assert np.abs(raw - here("raw_topk_grads")).max() < 2e-5 * np.abs(raw).max()
            ready = prepared_gradients(raw, 1.0)
            assert np.abs(ready - here("raw_topk_grads_prepared")).max() < 1e-6
            fast.write(golden.cfg, here("topk_idx"), ready, golden.cfg.ltm_lr, span.end - span.start, span.end, TRAINING)
            twin.memory[FAST] = fast.values
            assert np.abs(fast.values - here("state.ltm.fast_vals")).max() < 1e-6
            assert np.array_equal(fast.sources, here("state.ltm.sources")) and np.array_equal(fast.timestamps, here("state.ltm.timestamps"))
        packed = states.pack(twin.carried)
        assert max(np.abs(packed[part] - here(f"state.{part}")).max() for part in packed) < 1e-5
    wanted = golden.group("grad.")
    error, which = worst({n: twin.gradients[f"gradients/{n}"] for n in wanted}, wanted, 1e-3)
    assert error < 2e-5, which


@pytest.mark.parametrize("name", CHUNKED)
def test_chunks_on_the_device(name, device):
    golden, rows = case(name), case(name).rows()
    state = CoherentState(golden.cfg, device, Settings().optimizer, 0.75)
    state.load(golden.values)
    step = CoherentStep(state, len(rows.ids), 8, padded=True, objective=Objective(grad_clip=1.0))
    state.clear_gradients()
    step.batch(rows, 1.0, rows.mass(), None)
    wanted = golden.group("grad.")
    error, which = worst({n: state.store.read(f"gradients/{n}") for n in wanted}, wanted, 1e-3)
    assert error < (1e-4 if name == "ltm_inner_update" else 3e-5), which
    total = sum(chunk["chunk_loss_scaled"] for chunk in golden.facts["chunks"]) / rows.mass()
    assert abs(step.losses["objective"] - total) < 2e-5
    step.machine.close()


def test_a_chunk_boundary_changes_no_number():
    golden = case("full_random")
    rows = feeds.Rows.of(golden.tensors["input_ids"][:1])
    whole, pieces = (Twin(golden.cfg, golden.values, 1, training=False) for _ in range(2))
    together = whole.forward(rows, 0, 9)
    apart = np.concatenate([pieces.forward(rows, 0, 4), pieces.forward(rows, 4, 5), pieces.forward(rows, 5, 9)], 1)
    assert np.abs(together - apart).max() < 1e-12
    assert all(np.abs(whole.carried[n] - pieces.carried[n]).max() < 1e-12 for n in whole.carried)


def test_a_cut_stops_gradients_and_changes_no_state():
    golden = case("tbptt_detach4")
    rows, found = golden.rows(), {}
    for every in (4, None):
        from hierarchos.models.coherent_v9.config import resolve

        cfg = resolve({**golden.facts["config"], "detach_every_n_steps": every})
        twin = Twin(cfg, golden.values, len(rows.ids), padded=rows.padded)
        logits = twin.forward(rows, 0, 8)
        twin.backward(rows, 0, 8)
        found[every] = logits, twin.gradients["gradients/l_rnn.x_r"].copy()
    assert np.array_equal(found[4][0], found[None][0]) and (found[4][1] != found[None][1]).any()
