"""Token ids near a kink of relu or clamp, where the gradient of either side is right."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from validation.parity import kinks
from validation.parity.cases import case_of
from validation.parity.kinks import KinkedInputs, clear_of_kinks, distance
from validation.parity.seeds import KINKS_DRIFT

KINKED = [("ctrl", "base, 2x72, left padding"), ("gpt2", "unscaled scores, relu, inner 50"), ("mpt", "base, 2x72, left padding"),
          ("olmo", "base, 2x72, left padding"), ("opt", "base, 2x72, left padding"), ("opt", "post_norm, 2x72, left padding")]


@pytest.mark.parametrize("double", [False, True])
def test_inputs_of_relu_and_clamp_are_seen_where_something_depends_on_them(double):
    x = torch.tensor([-1.0, 0.25, 3.0], dtype=torch.float64 if double else torch.float32, requires_grad=True)
    mode = KinkedInputs(double)
    for _ in range(2):                                     # as in each step
        with mode:
            (torch.nn.functional.relu(x) + x.clamp(-0.5, max=0.5) + x.clamp(min=0.0)).sum().backward()
            torch.nn.functional.relu(x.detach())
            up = torch.nn.functional.relu
            (torch.square(up(x)) + up(x).pow(2) + up(x) * 3).sum().backward()
    assert [places for _, places in mode.seen] == [[0.0], [-0.5, 0.5], [0.0], [0.0]] * 2
    assert all((seen == [-1.0, 0.25, 3.0]).all() for seen, _ in mode.seen)


def test_the_nearest_place_counts():
    assert distance(np.array([-1.0, 0.3]), [0.5, 0.25]) == pytest.approx(0.05)


def test_an_input_within_its_error_is_not_clear(monkeypatch):
    monkeypatch.setattr(kinks, "kinked_inputs", lambda case, arrays, double, steps: [(np.array([0.1, 2.0]) + 0.03 * (not double), [0.0])])
    case = case_of(KINKED[0])
    assert not clear_of_kinks(case) and clear_of_kinks(case, 0.8)


def test_a_model_without_kinks_is_clear():
    assert clear_of_kinks(case_of(("gpt2", "tied, 1x7")))


@pytest.mark.parametrize("key", KINKED, ids=" ".join)
def test_stored_token_ids_are_clear(key):
    assert clear_of_kinks(case_of(key), KINKS_DRIFT)
    assert kinks.kinked_inputs(case_of(key), kinks.batch_arrays(case_of(key), case_of(key).config["vocab_size"]), False, 1)
