"""What the training loop promises: exact resume, accumulation that changes nothing, and a stop where numbers end."""
import os

import numpy as np
import pytest

from hierarchos.training.checkpoint import checkpoints
from hierarchos.training.errors import NotFinite
from hierarchos.training.metrics import read_metrics, without_timing
from tests.tiny import Optimizer, RandomBatches

GPT2 = {"model_type": "gpt2", "vocab_size": 61, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 32,
        "attn_pdrop": 0.2, "resid_pdrop": 0.1, "embd_pdrop": 0.1}


class Kill(BaseException):
    """Stands for a signal that no code catches."""


class KillAt:
    """An observer that ends the process, as it were, after a number of steps."""

    def __init__(self, step):
        self.step = step

    def started(self, trainer): ...
    def validated(self, step, loss, best): ...
    def saved(self, checkpoint): ...

    def stepped(self, report):
        if report.step == self.step:
            raise Kill


def finish(trainer):
    trainer.start(trainer.model.initial_values(1))
    trainer.run()
    return trainer


def outcome(trainer):
    return trainer.state.store.digest(), without_timing(read_metrics(trainer.folder / "metrics.jsonl"))


@pytest.mark.parametrize("killed_at", [1, 2, 5, 7])
def test_resume_equals_uninterrupted(tiny_trainer, killed_at):
    whole = outcome(finish(tiny_trainer("whole")))
    with pytest.raises(Kill):
        finish(tiny_trainer("halves", observer=KillAt(killed_at)))
    second = tiny_trainer("halves")
    if second.resume() is None:
        second.start(second.model.initial_values(1))
    second.run()
    assert outcome(second) == whole


def test_resume_equals_uninterrupted_with_dropout_accumulation_and_epochs(tiny_trainer):
    from hierarchos.models.registry import resolve

    options = {"model": resolve(dict(GPT2)), "dropout": True, "accumulation": 3, "steps": None, "epochs": 5.0}
    whole = finish(tiny_trainer("whole", **options))
    assert whole.counters.step == 7                     # 5 epochs of 4 batches in steps of 3
    with pytest.raises(Kill):
        finish(tiny_trainer("halves", observer=KillAt(5), **options))
    second = tiny_trainer("halves", **options)
    assert second.resume().step == 4
    second.run()
    assert outcome(second) == outcome(whole)


def test_a_kill_while_a_checkpoint_is_written_loses_only_that_one(tiny_trainer, monkeypatch):
    whole = outcome(finish(tiny_trainer("whole")))
    broken = tiny_trainer("halves")

    def half_written(path):
        path.write_bytes(b"\0" * 1000)
        if path.parent.name == ".step-6.partial":
            raise Kill
        type(broken.state).save(broken.state, path)

    monkeypatch.setattr(broken.state, "save", half_written)
    with pytest.raises(Kill):
        finish(broken)
    second = tiny_trainer("halves")
    assert second.resume().step == 4
    second.run()
    assert outcome(second) == whole
    assert not [name for name in os.listdir(second.checkpoint_folder) if "partial" in name]


class Merged:
    """The same rows as another source, `size` batches joined into one."""

    def __init__(self, source, size):
        self.source, self.size = source, size

    def __len__(self):
        return len(self.source) // self.size

    def batch(self, number):
        parts = [self.source.batch(number * self.size + index) for index in range(self.size)]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("rows, size", [(2, 4), (8, 1)])
def test_accumulation_gives_the_gradients_of_one_large_batch(tiny_trainer, rows, size):
    source = RandomBatches(1, 11, batches_per_epoch=8)
    large = finish(tiny_trainer("large", batches=Merged(source, 8), steps=1))
    parts = finish(tiny_trainer("parts", batches=Merged(source, rows), accumulation=size, steps=1))
    assert parts.last_loss == pytest.approx(large.last_loss, rel=1e-6)
    whole, summed = (t.state.store.read("gradients") for t in (large, parts))
    np.testing.assert_allclose(summed, whole, atol=2e-7 * np.abs(whole).max() + 1e-9, rtol=1e-5)


def test_recomputing_activations_changes_no_bit(tiny_trainer):
    kept, recomputed = (finish(tiny_trainer(str(flag), recompute=flag, steps=3)) for flag in (False, True))
    assert outcome(kept) == outcome(recomputed)


def test_a_number_that_is_not_finite_stops_the_run_and_spares_the_weights(tiny_trainer):
    trainer = tiny_trainer(checkpoint_every=1)
    batch = trainer.train_batches.batch

    def poisoned(number):
        made = batch(number)
        return made if number != 3 else made | {"token_weights": np.full_like(made["token_weights"], np.nan)}

    trainer.train_batches.batch = poisoned
    with pytest.raises(NotFinite) as stopped:
        finish(trainer)
    assert (stopped.value.step, stopped.value.good.step, stopped.value.weight) == (4, 3, None)
    assert stopped.value.gradient == "model.embed_tokens.weight"
    assert "step 4: the loss is" in str(stopped.value) and "last good checkpoint: step 3" in str(stopped.value)
    assert np.isfinite(trainer.state.store.read("parameters")).all()


def test_the_last_and_the_best_checkpoints_are_kept(tiny_trainer):
    trainer = finish(tiny_trainer(checkpoint_every=1, keep_last=2, eval_every=1, learning_rate=0.5))
    kept = [c.step for c in checkpoints(trainer.checkpoint_folder)]
    assert kept == sorted({trainer.counters.best_step, 7, 8})
    assert trainer.result(0.0).chosen.step == trainer.counters.best_step


@pytest.mark.parametrize("optimizer", [Optimizer("sgd", momentum=0.9), Optimizer("sgd"), Optimizer(weight_decay=0.0)])
def test_every_optimizer_lowers_the_loss_on_rows_that_repeat(tiny_trainer, optimizer):
    class Same(RandomBatches):
        def batch(self, number):
            return super().batch(0)

    rate = 0.5 if optimizer.name == "sgd" else 1e-2
    trainer = tiny_trainer(batches=Same(2, 11), optimizer=optimizer, learning_rate=rate, steps=25, eval_every=0, checkpoint_every=0)
    finish(trainer)
    losses = [row["loss"] for row in read_metrics(trainer.folder / "metrics.jsonl") if "loss" in row]
    assert losses[-1] < losses[0] - 0.5
