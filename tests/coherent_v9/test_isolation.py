"""isolate_batch_ltm: rows whose fast memories are apart never learn of each other; rows that share one do. Training and inference."""

from __future__ import annotations

import numpy as np
import pytest

from hierarchos.generation.coherent.session import CoherentSession
from hierarchos.models.coherent_v9.chunk import FAST
from hierarchos.models.coherent_v9.feeds import Rows, plan_spans
from hierarchos.models.coherent_v9.memory import TRAINING, FastMemory, prepared_gradients
from hierarchos.models.coherent_v9.parameters import initial_values
from hierarchos.training.coherent.state import CoherentState
from hierarchos.training.coherent.step import CoherentStep, Objective
from tests.coherent_v9.cases import worst
from tests.coherent_v9.small import small
from tests.coherent_v9.twin import Twin
from tests.tiny import Optimizer

LENGTH = 10
INNER = {"training_chunk_size": 4, "ltm_training_mode": "inner-update", "ltm_lr": 2.0, "detach_every_n_steps": None}


def rows(first: int) -> Rows:
    """Two rows, of which the first is one of several."""
    drawn = [np.random.default_rng(seed).integers(0, 61, LENGTH) for seed in (first, 99)]
    return Rows.of(np.stack(drawn))


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.abs(one - other).max() < 1e-6)


@pytest.mark.parametrize("isolated", [True, False])
def test_a_row_in_training_learns_of_the_other_only_where_they_share(isolated, device):
    cfg = small(**INNER, isolate_batch_ltm=isolated)
    outs, memories = [], []
    for first in (1, 2):
        state = CoherentState(cfg, device, Optimizer(), 1.0)
        state.load(initial_values(cfg, 0))
        step = CoherentStep(state, 2, LENGTH, False, Objective(grad_clip=1e6))    # the norm that is limited is that of both rows
        assert step.machine.kind.own_memory is isolated
        step.batch(rows(first), 1.0, rows(first).mass(), None)
        outs.append(step.machine.read("out", 2)[:, 1])
        memories.append(step.fast.values)
        step.machine.close()
    assert memories[0].shape == ((2, 8, 4) if isolated else (8, 4))
    assert same(*outs) is isolated
    if isolated:
        assert same(memories[0][1], memories[1][1]) and not same(memories[0][0], memories[1][0])


def test_a_shared_memory_is_written_as_float64_writes_it(device):
    cfg, batch, values = small(**INNER, isolate_batch_ltm=False), rows(1), initial_values(small(), 0)
    twin, fast, mass = Twin(cfg, values, 2), FastMemory.empty(cfg, None, "float64"), rows(1).mass()
    for span in plan_spans(batch, 4):
        twin.forward(batch, span.start, span.end)
        index = twin.tape["index"].swapaxes(0, 1)
        twin.backward(batch, span.start, span.end, span.label_ratio, span.token_ratio)
        ready = prepared_gradients(twin.tape["d.value"].swapaxes(0, 1) * mass, 1.0)
        fast.write(cfg, index, ready, cfg.ltm_lr, span.end - span.start, span.end, TRAINING)
        twin.memory[FAST] = fast.values
    state = CoherentState(cfg, device, Optimizer(), 1.0)
    state.load(values)
    step = CoherentStep(state, 2, LENGTH, False, Objective())
    step.batch(batch, 1.0, mass, None)
    assert np.abs(step.fast.values - fast.values).max() < 1e-4 * np.abs(fast.values).max() and np.abs(fast.values).max() > 1e-2
    assert np.array_equal(step.fast.timestamps, fast.timestamps) and np.array_equal(step.fast.sources, fast.sources)
    wanted = {name.partition("/")[2]: value for name, value in twin.gradients.items()}
    error, name = worst({n: state.store.read(f"gradients/{n}") for n in wanted}, wanted, 1e-3)
    assert error < 1e-4, name
    step.machine.close()


@pytest.mark.parametrize("isolated", [True, False])
def test_written_values_reach_other_rows_only_where_they_share(isolated, device):
    cfg = small(allow_untrained_hebbian_writer=True, ltm_lr=0.5, isolate_batch_ltm=isolated)
    session = CoherentSession(cfg, initial_values(cfg, 0), device, rows=2, writes=True, longest=1)
    assert session.fast.shared is not isolated
    found = []
    for first in (1, 2):
        session.reset()
        found.append(session.feed(rows(first).ids)[1])
    assert same(*found) is isolated
    session.close()


def test_one_row_that_only_reads_has_the_memory_of_the_package(device):
    cfg = small()
    values, held = initial_values(cfg, 0), np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    buffers = {"ltm.fast_vals": held, "ltm._mom_vals": 0 * held, "ltm.timestamps": np.arange(8, dtype=np.float32)}
    ids, found = rows(1).ids[:1], []
    for given in (FastMemory.of_package(cfg, buffers), None):
        session = CoherentSession(cfg, values, device, memory=given, longest=1)
        found.append(session.feed(ids))
        session.reset()
        assert np.array_equal(session.fast.values, held if given else 0 * held)
        session.close()
    session = CoherentSession(cfg, values | {"ltm.vals": values["ltm.vals"] + held}, device, longest=1)
    assert np.abs(session.feed(ids) - found[0]).max() < 1e-6 < np.abs(found[0] - found[1]).max()
    session.close()


def test_slots_are_chosen_by_the_clock_on_the_wall_too():
    cfg = small()
    memory, index = FastMemory.empty(cfg), np.array([[[1, 2]]])
    memory.write(cfg, index, np.ones((1, 1, 2, 4), np.float32), 0.1, 1, 5.0, 1, wallclock=1000.0)
    memory.write(cfg, index[..., :1] + 2, np.ones((1, 1, 1, 4), np.float32), 0.1, 1, 6.0, 1)         # its time is not told
    assert np.nonzero(memory.allowed(1, since=900.0)[0])[0].tolist() == [1, 2]
    assert not memory.allowed(1, since=1001.0).any() and memory.allowed(1).all()
    assert np.nonzero(memory.allowed(1, earliest=6.0)[0])[0].tolist() == [3]
    assert np.array_equal(memory.copy().wallclock, memory.wallclock)


def test_a_state_beyond_its_clamps_is_limited_when_it_is_given(device):
    from hierarchos.models.coherent_v9.state import zeros

    cfg = small()
    session = CoherentSession(cfg, initial_values(cfg, 0), device, longest=1)
    session.restore({name: value + 1e4 for name, value in zeros(cfg, 1).items()}, session.rosa, 3)
    found = session.state()
    assert found["h.M"].max() == cfg.recurrent_state_clamp and found["drift"].max() == cfg.drift_state_clamp
    assert found["previous"].max() == cfg.context_state_clamp
    session.close()
