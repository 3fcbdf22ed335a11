"""Mixed precision: what is rounded, that a loss scale changes no bit that it need not, and what overflow and resume do."""
from dataclasses import replace

import numpy as np
import pytest

from hierarchos.training.errors import NotFinite
from hierarchos.training.graphs import PARAMETERS
from hierarchos.training.loop import Trainer
from hierarchos.training.metrics import read_metrics, without_timing
from hierarchos.training.need import Planner
from hierarchos.training.precision import GOOD_STEPS, LOSS_SCALE, Precision
from tests.tiny import RandomBatches, Settings

FP16 = Precision("fp16", loss_scale=1024.0, loss_scale_steps=4)


@pytest.fixture
def trainer_of(tiny_model, device, tmp_path):
    """make(precision, folder, **settings) -> a trainer at its first step."""
    def make(precision, folder="run", **settings):
        made = Trainer(tiny_model, replace(Settings(), **settings), RandomBatches(2, 11), [], device, tmp_path / folder,
                       precision=precision)
        made.start(tiny_model.initial_values(0))
        return made
    return make


def parameters(trainer):
    return trainer.state.store.read(PARAMETERS)


def metrics(trainer):
    return without_timing(read_metrics(trainer.folder / "metrics.jsonl"))


@pytest.mark.parametrize("compute", ["bf16", "fp16"])
def test_a_half_run_follows_the_fp32_run(trainer_of, compute):
    wide, half = trainer_of(Precision(), "wide"), trainer_of(Precision(compute, 1024.0), "half")
    for trainer in (wide, half):
        trainer.run()
    losses = [[row["loss"] for row in metrics(trainer)] for trainer in (wide, half)]
    assert losses[0] != losses[1]
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-2 if compute == "bf16" else 2e-3)


def test_scaling_by_another_power_of_two_changes_no_bit_while_nothing_underflows(trainer_of):
    one, other = (trainer_of(Precision("fp16", scale, 1000), str(scale), steps=3) for scale in (4096.0, 8192.0))
    for trainer in (one, other):
        trainer.run()
    assert np.abs(parameters(one) - parameters(other)).max() < 1e-4
    assert metrics(one)[0]["loss"] == metrics(other)[0]["loss"]


def test_the_scale_doubles_after_enough_good_steps(trainer_of):
    trainer = trainer_of(FP16)
    trainer.run()
    assert [row["loss_scale"] for row in metrics(trainer)] == [1024.0] * 4 + [2048.0] * 4
    assert trainer.state.store.read(LOSS_SCALE)[0] == 4096.0
    assert all(row["skipped"] == 0 for row in metrics(trainer))


def test_overflow_skips_the_step_halves_the_scale_and_is_counted(trainer_of):
    trainer = trainer_of(Precision("fp16", 2.0**24, 1000), steps=1)
    trainer.state.store.write(LOSS_SCALE, np.array([2.0**40], np.float32))
    before = parameters(trainer)
    trainer.run()
    (row,) = metrics(trainer)
    assert row["skipped"] == 1 and row["loss_scale"] == 2.0**40 and "gradient_norm" not in row
    assert trainer.state.store.read(LOSS_SCALE)[0] == 2.0**39 and trainer.state.store.read(GOOD_STEPS)[0] == 0
    assert (parameters(trainer) == before).all()
    assert np.isfinite(row["loss"]) and trainer.counters.skipped == trainer.step.skipped == 1


def test_weights_beyond_the_range_of_fp16_end_the_run(trainer_of, tiny_model):
    trainer = trainer_of(Precision("fp16", 1.0, 1000), steps=2)
    large = {name: value * 3e7 if name.endswith("down_proj.weight") else value for name, value in tiny_model.initial_values(0).items()}
    trainer.start(large)
    with pytest.raises(NotFinite, match="precision=bf16"):
        trainer.run()


def test_a_resumed_fp16_run_is_the_unbroken_one_bit_for_bit(trainer_of):
    whole = trainer_of(FP16, "whole", checkpoint_every=3)
    whole.run()
    first = trainer_of(FP16, "halves", checkpoint_every=3)
    for _ in zip(range(5), first.remaining_steps(), strict=False):
        if first.counters.step == 3:
            first.save()
    second = trainer_of(FP16, "halves", checkpoint_every=3)
    assert second.resume().step == 3
    second.run()
    for name in (PARAMETERS, "first_moment", "second_moment", LOSS_SCALE, GOOD_STEPS):
        assert (whole.state.store.read(name) == second.state.store.read(name)).all()
    assert [row["loss"] for row in metrics(whole)][3:] == [row["loss"] for row in metrics(second)]


def test_accumulated_half_gradients_are_scaled_too(trainer_of):
    one, two = trainer_of(FP16, "one", steps=2), trainer_of(FP16, "two", steps=2, accumulation=2)
    for trainer in (one, two):
        trainer.run()
    assert [row["loss_scale"] for row in metrics(two)] == [1024.0, 1024.0]
    assert metrics(two)[0]["gradient_norm"] == pytest.approx(metrics(one)[0]["gradient_norm"], rel=1)


@pytest.mark.parametrize("precision", [Precision("bf16"), FP16])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_the_plan_of_a_half_run_is_what_it_allocates(trainer_of, device, tiny_model, precision, accumulation):
    before = device.memory.used
    need = Planner(tiny_model, device, precision).training(replace(Settings(), accumulation=accumulation), [(2, 11)])
    trainer = trainer_of(precision, steps=2, accumulation=accumulation)
    trainer.run()
    assert device.memory.used - before in (need.total, need.total - need.items.get("transfers", 0))
    assert need.items.get("loss scale", 0) == (512 if precision.scaled else 0)


def test_halves_need_less_memory(device, tiny_model):
    wide, half = (Planner(tiny_model, device, Precision(compute)).training(Settings(), [(8, 60)]).items for compute in ("fp32", "bf16"))
    assert half["activations"] < 0.75 * wide["activations"] and half["weights"] == wide["weights"]
