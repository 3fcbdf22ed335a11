"""What every decoder promises: causal, blind to padding and to other documents, windows as configured."""
import numpy as np
import pytest

from tests.models.twin import CONFIGS, model_and_values, run_logits

LENGTH = 13


def some_ids(rows=2, length=LENGTH):
    return np.random.default_rng(7).integers(0, 41, (rows, length))


@pytest.mark.parametrize("name", CONFIGS)
def test_later_tokens_change_nothing_before_them(name):
    model, values = model_and_values(name)
    ids = some_ids()
    changed = ids.copy()
    changed[:, 9:] = (changed[:, 9:] + 1) % 41
    before, after = run_logits(model, values, ids), run_logits(model, values, changed)
    assert np.array_equal(before[:, :9], after[:, :9])
    assert np.abs(before[:, 9:] - after[:, 9:]).max() > 1e-3


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(name, side):
    model, values = model_and_values(name)
    ids = some_ids(1, 9)
    alone = run_logits(model, values, ids)
    pad = np.full((1, 4), 3)
    padded = np.concatenate([pad, ids] if side == "left" else [ids, pad], axis=1)
    real = np.concatenate([np.zeros(4), np.ones(9)] if side == "left" else [np.ones(9), np.zeros(4)])[None].astype(np.int32)
    positions = np.maximum(np.cumsum(real, axis=1) - 1, 0)
    found = run_logits(model, values, padded, real, positions)[real > 0]
    assert np.abs(found - alone[0]).max() < 1e-12
    assert np.isfinite(found).all()


@pytest.mark.parametrize("name", CONFIGS)
def test_documents_in_one_row_do_not_see_each_other(name):
    model, values = model_and_values(name)
    first, second = some_ids(1, 6), some_ids(1, 13)[:, 6:]
    packed = run_logits(model, values, np.concatenate([first, second], axis=1), [[1] * 6 + [2] * 7], [[*range(6), *range(7)]])
    assert np.abs(packed[:, :6] - run_logits(model, values, first)).max() < 1e-12
    assert np.abs(packed[:, 6:] - run_logits(model, values, second)).max() < 1e-12


def test_a_window_hides_what_is_further_back():
    model, values = model_and_values("mistral")
    ids = some_ids(1)
    changed = ids.copy()
    changed[:, 0] = (changed[:, 0] + 1) % 41
    difference = np.abs(run_logits(model, values, ids) - run_logits(model, values, changed)).max(axis=(0, 2))
    reach = 2 * (5 - 1)      # two layers, each sees its own position and 4 before it
    assert (difference[:reach + 1] > 1e-9).all()
    assert (difference[reach + 1:] == 0).all()


def test_only_the_layers_past_max_window_layers_slide():
    model, _ = model_and_values("qwen2")
    assert model.config.windows == (None, 4)
