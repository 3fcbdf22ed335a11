"""Optimizer steps on the device against AdamW in float64, both groups of weight decay, what is skipped, rates and the writer's status."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.models.coherent_v9.config import resolve
from hierarchos.models.coherent_v9.parameters import initial_values, parameters
from hierarchos.training.coherent.schedule import learning_rate, warmup_length
from hierarchos.training.coherent.state import CoherentState
from hierarchos.training.coherent.step import CoherentStep, Objective
from hierarchos.training.coherent.writer import Writer
from hierarchos.training.graphs import GRADIENTS
from tests.coherent_v9.cases import STEPS, case, vectors, worst
from tests.coherent_v9.small import small
from tests.coherent_v9.training import INNER, SMALL, trainer
from tests.coherent_v9.twin import Twin
from tests.tiny import Optimizer, RandomBatches

RATE, DECAY = 1e-3, 0.1


def adamw64(twin: Twin, moments: dict, step: int, decayed: set[str], eps: float, clip: float) -> None:
    """One step in float64 on the twin's gradients."""
    gradients = {name.partition("/")[2]: value for name, value in twin.gradients.items()}
    norm = np.sqrt(sum((g * g).sum() for g in gradients.values()))
    scale = min(1.0, clip / (norm + 1e-6))
    for name, value in twin.values.items():
        g = gradients[name] * scale
        m, v = moments.setdefault(name, [np.zeros_like(value), np.zeros_like(value)])
        m += 0.1 * (g - m)
        v += 0.001 * (g * g - v)
        value *= 1 - RATE * DECAY if name in decayed else 1.0
        value -= RATE / (1 - 0.9**step) * m / (np.sqrt(v) / np.sqrt(1 - 0.999**step) + eps)
    for value in twin.gradients.values():
        value[...] = 0


@pytest.mark.parametrize("name", [name for name in STEPS if "adamw_eps1e-3" in case(name).facts["optimizer"]])
def test_two_steps_end_where_float64_ends(name, device):
    golden, rows = case(name), case(name).rows()
    decayed = {spec.name for spec in parameters(golden.cfg) if spec.decay}
    twin, moments = Twin(golden.cfg, golden.values, len(rows.ids), padded=rows.padded), {}
    state = CoherentState(golden.cfg, device, replace(Optimizer(), eps=1e-3, weight_decay=DECAY), 1.0)
    state.load(golden.values)
    state.warmup_step = twin.warmup_step = golden.warmup_step
    step = CoherentStep(state, len(rows.ids), rows.length, rows.padded, Objective())
    for number in (1, 2):
        twin.carried, twin.position = {n: v * 0 for n, v in twin.carried.items()}, 0
        from hierarchos.models.coherent_v9.feeds import automata

        twin.rosa = automata(golden.cfg, len(rows.ids))
        twin.forward(rows, 0, rows.length)
        twin.backward(rows, 0, rows.length)
        adamw64(twin, moments, number, decayed, 1e-3, 1.0)
        state.clear_gradients()
        step.batch(rows, 1.0, rows.mass(), None)
        norm = state.update(number, RATE)
        wanted = golden.facts["optimizer"]["adamw_eps1e-3"]["grad_norm_before_clip"][number - 1]
        assert abs(norm - wanted) < 1e-5 * wanted
    of_pytorch = golden.facts["optimizer"]["adamw_eps1e-3"]["param_max_abs_err_fp32_vs_fp64"]["step2"]
    error = max(np.abs(state.store.read(n) - twin.values[n]).max() for n in twin.values)
    assert error <= max(2e-7, 2 * of_pytorch)
    reference = golden.group("adamw_eps1e-3.step2.param.")
    assert max(np.abs(state.store.read(n) - reference[n]).max() for n in reference) < 1e-5
    step.machine.close()


def test_two_steps_over_chunks(device):
    """eps 1e-8: entries whose gradient is near rounding level may move by up to twice the rate, so the mean is compared."""
    golden, rows = case("tbptt_chunks"), case("tbptt_chunks").rows()
    state = CoherentState(golden.cfg, device, replace(Optimizer(), weight_decay=DECAY), 0.75)
    state.load(golden.values)
    step = CoherentStep(state, len(rows.ids), 8, True, Objective())
    for number, wanted in enumerate(golden.facts["optimizer"]["grad_norm_before_clip"], 1):
        state.clear_gradients()
        step.batch(rows, 1.0, rows.mass(), None)
        assert abs(state.update(number, RATE) - wanted) < 2e-4 * wanted
    reference = golden.group("adamw.step2.param.")
    for name, value in reference.items():
        assert np.abs(state.store.read(name) - value).mean() < 2e-5, name
    step.machine.close()


def test_only_chosen_tensors_change(device, tmp_path):
    before = initial_values(SMALL, 3)
    made = trainer(device, tmp_path, steps=2, trained=frozenset({"ltm.vals", "h_rnn.w1", "ltm_router.weight"}))
    made.start(before)
    made.run()
    changed = {name for name, value in before.items() if not np.array_equal(value, made.state.store.read(name))}
    assert changed == {"ltm.vals", "h_rnn.w1", "ltm_router.weight"}


def test_a_gradient_that_is_not_finite_changes_nothing(device):
    state = CoherentState(SMALL, device, Optimizer(), 1.0)
    state.load(initial_values(SMALL, 0))
    before = state.store.digest("parameters", "first_moment")
    state.clear_gradients()
    state.store.write(f"{GRADIENTS}/out_norm.bias", np.full(16, np.nan, np.float32))
    assert not np.isfinite(state.update(1, RATE))
    assert state.store.digest("parameters", "first_moment") == before


def test_a_batch_without_labels_is_refused(device, tmp_path):
    made = trainer(device, tmp_path)
    made.start(initial_values(SMALL, 3))
    batch = made.train_batches.batch(0)
    batch["targets"][:] = -100
    with pytest.raises(UserError, match="a batch has no trained label behind its first column"):
        made.step.run([batch], 0, RATE)


def test_batches_of_a_step_count_by_their_labels(device):
    """Two batches in one step give the mean of their gradients, weighted by label mass."""
    state = CoherentState(SMALL, device, Optimizer(), 1.0)
    state.load(initial_values(SMALL, 0))
    step = CoherentStep(state, 2, 13, True, Objective())
    rng = np.random.default_rng(0)
    from hierarchos.models.coherent_v9.feeds import Rows

    batches = [Rows.of(rng.integers(0, 61, (2, n))) for n in (13, 7)]
    found, masses = [], [rows.mass() for rows in batches]
    for rows in batches:
        state.clear_gradients()
        step.batch(rows, 1.0, rows.mass(), None)
        found.append({spec.name: state.store.read(f"gradients/{spec.name}") for spec in state.specs})
    state.clear_gradients()
    for rows, mass in zip(batches, masses, strict=True):
        step.batch(rows, mass / sum(masses), sum(masses), None)
    wanted = {n: (found[0][n] * masses[0] + found[1][n] * masses[1]) / sum(masses) for n in found[0]}
    error, name = worst({n: state.store.read(f"gradients/{n}") for n in wanted}, wanted, 1e-3)
    assert error < 1e-5, name
    step.machine.close()


def test_batches_count_alike_where_that_is_asked_for(device):
    """microbatch: the mean of the batches' gradients, however many labels each has."""
    cfg = small(training_chunk_size=8)  # its gates do not warm up
    state = CoherentState(cfg, device, Optimizer(), 1.0)
    state.load(initial_values(cfg, 0))
    step = CoherentStep(state, 2, 13, True, Objective(normalization="microbatch"))
    batches, parts = [RandomBatches(2, 13).batch(0), RandomBatches(2, 13).batch(1)], []
    batches[1]["token_weights"][0] = 0.0
    state.update = lambda number, rate: 1.0  # keeps the gradients
    for group in ([batches[0]], [batches[1]], batches):
        step.run(group, 0, RATE)
        parts.append({spec.name: state.store.read(f"gradients/{spec.name}") for spec in state.specs})
    wanted = {name: (parts[0][name] + parts[1][name]) / 2 for name in parts[0]}
    error, name = worst(parts[2], wanted, 1e-3)
    assert error < 1e-5, name
    step.machine.close()


def test_the_rate_of_inner_updates_falls_along_half_a_cosine(device, tmp_path):
    made = trainer(device, tmp_path, cfg=INNER)
    rates, lowest = [made.memory_rate(number) for number in range(5)], made.settings.learning_rate * made.settings.schedule.floor
    wanted = [lowest + (0.1 - lowest) * 0.5 * (1 + np.cos(np.pi * n / 4)) for n in range(5)]
    assert rates == pytest.approx(wanted) and made.session()["ltm_lr_scheduler"]["enabled"]
    assert not trainer(device, tmp_path).session()["ltm_lr_scheduler"]["enabled"]


def test_schedule_and_warmup_are_those_of_the_reference():
    facts = vectors()
    schedule = facts["lr_schedule"]
    for update, rate in enumerate(schedule["lr_at_step"]):
        found = learning_rate(update, schedule["total_steps"], schedule["max_lr"], schedule["min_lr"], schedule["warmup_steps"])
        assert found == pytest.approx(rate, rel=1e-12)
    for entry in facts["warmup_resolution"]:
        assert warmup_length(entry["total"], entry["explicit"], entry["ratio"]) == entry["resolved"]


def test_the_writer_is_ready_after_enough_good_updates():
    cfg = resolve({**SMALL.values, "ltm_value_alignment_min_updates": 3, "ltm_value_alignment_ready_threshold": 0.5})
    writer = Writer()
    for score, ready in ((2.0, False), (0.1, False), (0.1, False)):
        writer.update(cfg, score, 1.0)
        assert writer.val_proj_trained is ready
    assert writer.val_proj_alignment_ema == pytest.approx(0.95 * (0.95 * 2.0 + 0.05 * 0.1) + 0.05 * 0.1)
    for _ in range(80):
        writer.update(cfg, 0.1, 1.0)
    assert writer.val_proj_trained and writer.val_proj_alignment_best == 0.1
    writer.update(cfg, 0.1, 65.0)
    assert not writer.val_proj_trained


def test_the_gates_step_is_that_of_the_batch_also_in_a_last_window(device, tmp_path):
    """Five batches in windows of two: the last step has the fifth alone."""
    made = trainer(device, tmp_path, steps=None, accumulation=2, epochs=1.25)
    made.start(initial_values(SMALL, 3))
    seen = []
    for _ in made.remaining_steps():
        seen.append(made.state.warmup_step)
    assert seen == [1.0, 3.0, 4.0] and not made.step.coming


