"""The memory plan of training: its arithmetic, its agreement with what is allocated, and settings that need less."""
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hierarchos.training.advice import alternatives, states
from hierarchos.training.need import Planner, largest
from hierarchos.vulkan import DeviceInfo
from tests.tiny import Optimizer, Settings

DEVICE = SimpleNamespace(info=DeviceInfo(0, "pretended", "software", heap_bytes=1 << 31, max_allocation=1 << 31, subgroup=8))
SHAPE = [(2, 11)]


@pytest.fixture
def planner(tiny_model):
    return Planner(tiny_model, DEVICE)


def padded(planner, vectors=False):
    """Bytes of an arena, of all parameters or of scalars and vectors: every tensor is filled up to 256 bytes."""
    return sum(-(-4 * spec.size // 256) * 256 for spec in planner.parameters if not vectors or len(spec.shape) < 2)


def test_items_of_the_plan_add_up(planner):
    weights, carry = padded(planner), padded(planner, vectors=True)
    need = planner.training(Settings(), SHAPE)
    assert {name: need.items[name] for name in ("weights", "gradients", "moments", "decay groups")} == {
        "weights": weights, "gradients": weights, "moments": 2 * weights + carry, "decay groups": -(-weights // 64 // 256) * 256}
    batch = 5 * 256                                     # ids, positions, segments, targets, token_weights: 88 bytes each
    assert need.items["inputs and outputs"] == batch + 256 + 2 * 256        # scalars; loss and square norm
    assert need.total == sum(need.items.values())


@pytest.mark.parametrize(("optimizer", "moments"), [(Optimizer("sgd"), 0), (Optimizer("sgd", momentum=0.9), 1), (Optimizer(), 2)])
def test_moments_are_those_of_the_optimizer(planner, optimizer, moments):
    need = planner.training(Settings(optimizer=optimizer), SHAPE)
    carry = padded(planner, vectors=True) if optimizer.name == "adamw" else 0
    assert need.items.get("moments", 0) == moments * padded(planner) + carry


@pytest.mark.parametrize("changes", [{}, {"accumulation": 2}, {"recompute": True}, {"accumulation": 2, "recompute": True},
                                     {"optimizer": Optimizer("sgd")}])
def test_plan_is_what_training_allocates(device, tiny_model, tiny_trainer, changes):
    before = device.memory.used
    need = Planner(tiny_model, device).training(replace(Settings(), **changes), SHAPE, [(3, 9)])
    trainer = tiny_trainer(steps=3, **changes)
    trainer.start(tiny_model.initial_values(1))
    trainer.run()
    transfers = need.items.get("transfers", 0)          # one buffer of the device, perhaps made before
    assert device.memory.used - before in (need.total, need.total - transfers)
    for program in trainer.step.programs.values():
        program.close()
    for arena in list(trainer.state.store.layout.arenas):
        trainer.state.store.free(arena)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_recomputation_lowers_the_plan(planner, accumulation):
    settings = Settings(batch_size=4, sequence_length=64, accumulation=accumulation)
    plain, again = (planner.training(replace(settings, recompute=flag), [(4, 64)]).items["activations"] for flag in (False, True))
    assert again < 0.75 * plain


def test_evaluation_needs_neither_gradients_nor_moments(planner):
    assert set(planner.evaluation(SHAPE).items) == {"weights", "activations", "workspace", "inputs and outputs", "constants"}


def test_largest_shape_has_the_most_tokens():
    assert largest([(2, 32), (2, 96), (2, 64)]) == (2, 96)


def test_alternatives_say_what_to_type_and_what_it_needs(planner):
    settings = Settings(batch_size=4, sequence_length=64)
    found = alternatives(planner, settings, [(4, 64)], limit=0)
    assert [one.words for one in found] == [
        "train.recompute=true",
        "train.batch_size=1 train.accumulation=4",
        "train.sequence_length=32",
        "train.optimizer.name=sgd",
        "train.recompute=true train.batch_size=1 train.accumulation=4 train.sequence_length=32 train.optimizer.name=sgd"]
    assert found[0].need == planner.training(replace(settings, recompute=True), [(4, 64)])
    assert all(one.need.total < planner.training(settings, [(4, 64)]).total for one in found)
    assert found[-1].need.total == min(one.need.total for one in found)


def test_a_size_is_halved_only_until_it_fits(planner):
    settings = Settings(batch_size=8, sequence_length=64)
    half = planner.training(replace(settings, batch_size=4, accumulation=2), [(4, 64)]).total
    assert "train.batch_size=4 train.accumulation=2" in [one.words for one in alternatives(planner, settings, [(8, 64)], half)]


def test_where_none_fits_alone_only_what_is_needed_is_put_together(planner):
    settings = Settings(batch_size=4, sequence_length=64)
    limit = planner.training(replace(settings, batch_size=1, accumulation=4, sequence_length=32), [(1, 32)]).total
    found = alternatives(planner, settings, [(4, 64)], limit)
    assert all(one.need.total > limit for one in found[:-1])
    assert found[-1].need.total <= limit and len(found[-1].words.split()) > 1
    assert "sgd" not in found[-1].words                 # what changes the result most is given up first


def test_what_is_kept_all_the_time_is_known_without_a_plan(planner):
    settings = Settings()
    kept, planned = planner.states(settings).items, planner.training(settings, SHAPE).items
    assert kept == {name: planned[name] for name in ("weights", "gradients", "moments", "decay groups")}
    found = states(planner, settings)
    assert [one.words for one in found] == ["", "train.optimizer.name=sgd train.optimizer.momentum=0.9", "train.optimizer.name=sgd"]
    assert [one.need.total for one in found] == sorted((one.need.total for one in found), reverse=True)
