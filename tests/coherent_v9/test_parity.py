"""A step from zero state: logits, state, losses, gradients and every discrete decision of each case, in float64 and on the device."""

from __future__ import annotations

import numpy as np
import pytest

from hierarchos.coherent.machine import Machine, Memory
from hierarchos.models.coherent_v9 import state as states
from hierarchos.models.coherent_v9.chunk import Chunk, Kind
from hierarchos.models.coherent_v9.feeds import automata
from tests.coherent_v9.cases import STEPS, case, own_name, worst
from tests.coherent_v9.twin import Twin

LOSSES = {
    "ce": "ce",
    "z_loss": "z_loss",
    "ponder_cost": "ponder_cost",
    "commitment_cost": "commitment_cost",
    "alignment_cost": "alignment_cost",
    "objective": "total",
}


def check_forward(golden, length, logits, carried, tape, tolerance):
    """Logits and state within a tolerance, decisions exactly."""
    t, valid = golden.tensors, golden.rows().mask > 0
    assert np.abs(logits - t["train.logits"][:, :length]).max() < tolerance
    packed = states.pack(carried)
    assert max(np.abs(packed[name] - t[f"train.state.{name}"]).max() for name in packed) < tolerance
    assert np.array_equal(tape["index"].swapaxes(0, 1), t["train.topk_idx"][:, :length])
    assert np.array_equal(tape["worker_steps"].T, t["train.l_steps"][:, :length])
    plans = (np.arange(length) % golden.cfg.h_stride == 0)[:, None]
    assert np.array_equal(np.where(plans, tape["depth"], 1.0).T * valid, t["train.h_steps"][:, :length])
    if golden.cfg.use_rosa:
        told = [
            automaton.feed_all(row) for automaton, row in zip(automata(golden.cfg, len(valid)), golden.rows().ids.tolist(), strict=True)
        ]
        told = np.where(np.array(told) < 0, golden.cfg.vocab_size, told)
        assert np.array_equal(told[valid], t["train.rosa_ids"][:, :length][valid])


def check_losses(golden, found, tolerance):
    for ours, name in LOSSES.items():
        assert abs(float(found[ours]) - golden.facts["losses"][name]) <= tolerance * max(1.0, abs(golden.facts["losses"][name])), name


def check_gradients(golden, found, tolerance):
    """Relative to the tensor's largest; what is near rounding level everywhere is measured against 1e-4 of the largest gradient of all."""
    wanted = {own_name(name): value for name, value in golden.group("grad.").items()}
    floor = 1e-4 * max(np.abs(value).max() for value in wanted.values())
    error, name = worst(found, wanted, floor)
    assert error < tolerance, name
    for name in golden.facts["params_without_grad"]:
        assert not found[own_name(name)].any()


@pytest.mark.parametrize("name", STEPS)
def test_step_of_the_reference(name, device):
    golden, rows = case(name), case(name).rows()
    count, length = rows.ids.shape
    chunk = Chunk(golden.cfg, Kind(count, padded=rows.padded))

    twin = Twin(golden.cfg, golden.values, count, padded=rows.padded, chunk=chunk)
    twin.warmup_step = golden.warmup_step
    logits = twin.forward(rows, 0, length)
    check_forward(golden, length, logits, twin.carried, twin.tape, 5e-6)
    check_losses(golden, twin.backward(rows, 0, length), 1e-6)
    check_gradients(golden, {name.partition("/")[2]: value for name, value in twin.gradients.items()}, 1e-5)

    memory = Memory(golden.cfg, device, training=True)
    memory.load(golden.values)
    machine = Machine(memory, chunk.kind, length, chunk)
    ours = machine.run("logits", rows, 0, length, 0, automata(golden.cfg, count), golden.warmup_step)["logits"].swapaxes(0, 1)
    assert np.abs(ours - logits).max() < 1e-5  # of float64
    check_forward(
        golden, length, ours, machine.read_state(), {n: machine.read(n, length) for n in ("index", "worker_steps", "depth")}, 1e-5
    )
    machine.reset()
    found = machine.run("step", rows, 0, length, 0, automata(golden.cfg, count), golden.warmup_step)
    check_losses(golden, {name: value[0] for name, value in found.items()}, 2e-6)
    check_gradients(golden, {name: memory.store.read(f"gradients/{name}") for name in golden.values}, 2e-5)
    machine.close()


def test_gradients_of_the_likelihood_alone():
    golden, rows = case("full_random"), case("full_random").rows()
    twin = Twin(golden.cfg, golden.values, 2, padded=rows.padded)
    twin.forward(rows, 0, rows.length)
    twin.backward(rows, 0, rows.length, token_scale=0.0)
    wanted = golden.group("grad_ce_only.")
    error, name = worst({name: twin.gradients[f"gradients/{name}"] for name in wanted}, wanted)
    assert error < 1e-5, name


def test_every_module_of_the_reference_trace():
    """Raw outputs of submodules, in order, and the objective's gradient at each worker and manager step."""
    golden, values = case("trace"), case("full_random").values
    from hierarchos.models.coherent_v9.config import resolve
    from hierarchos.models.coherent_v9.feeds import Rows

    cfg = resolve(golden.facts["config"])
    rows = Rows.of(golden.tensors["input_ids"], golden.tensors["labels"])
    twin = Twin(cfg, values, len(rows.ids))
    length = rows.length
    twin.forward(rows, 0, length)
    losses = twin.backward(rows, 0, length)
    for ours, name in (("ce", "ce"), ("commitment_cost", "commitment_cost"), ("ponder_cost", "ponder_cost"), ("objective", "total")):
        assert abs(losses[ours] - golden.facts["losses"][name]) < 2e-6, name
    wanted = golden.group("grad.")
    error, name = worst({name: twin.gradients[f"gradients/{name}"] for name in wanted}, wanted)
    assert error < 1e-5, name
    calls = [t for t in range(length) for _ in range(1)]
    for t in calls:
        assert (
            np.abs(
                twin.tape["x.to_out#0"][t] - np.clip(last_worker_output(golden, cfg, t), -cfg.activation_clamp, cfg.activation_clamp)
            ).max()
            < 5e-6
        )


def last_worker_output(golden, cfg, token: int) -> np.ndarray:
    """What the worker's committed step gave."""
    return golden.tensors[f"fwd.l_rnn.{(cfg.max_l_steps + 1) * (token + 1) - 1}.out"]
