"""The choice on the device agrees with its NumPy twin: greedy, each filter, the draw; frequencies follow the probabilities."""

import numpy as np
import pytest

from hierarchos.graph.ops.choose import Choose
from hierarchos.kernels.choose import Drawing, filtered, penalised, probabilities, token_of
from tests.support import run_op

RNG = np.random.default_rng(5)
DRAWINGS = [
    Drawing(True),
    Drawing(True, 0.7),
    Drawing(True, top_k=5),
    Drawing(True, top_p=0.8),
    Drawing(True, min_p=0.2),
    Drawing(True, typical_p=0.6),
    Drawing(True, epsilon_cutoff=0.02),
    Drawing(True, eta_cutoff=0.05),
    Drawing(True, 1.3, 50, 0.9, 0.01, 0.9, 1e-4, 1e-4, 1.2),
]


def run(device, logits, drawing, offset, seen=None, history=4):
    rows, vocabulary = logits.shape
    seen = np.zeros((rows, vocabulary), np.uint32) if seen is None else seen
    return run_op(
        device,
        Choose(),
        logits,
        drawing.words(),
        seen,
        np.zeros((rows, 1), np.int32),
        np.array(offset, np.int32),
        np.zeros((rows, history), np.int32),
    )


def test_greedy_takes_the_first_of_the_largest(device):
    logits = RNG.standard_normal((3, 5000)).astype(np.float32)
    logits[1, [77, 4000]] = 9.0
    seen, ids, offset, history = run(device, logits, Drawing(), [3, 9, 0])
    assert ids[:, 0].tolist() == logits.argmax(1).tolist() and ids[1, 0] == 77
    assert offset.tolist() == [4, 10, 1] and [history[0, 3], history[1, 1], history[2, 0]] == ids[:, 0].tolist() and not seen.any()


@pytest.mark.parametrize("drawing", DRAWINGS, ids=str)
def test_draws_are_those_of_the_twin(device, drawing):
    logits = (2 * RNG.standard_normal((6, 1500))).astype(np.float32)
    seen = (RNG.random((6, 1500)) < 0.3).astype(np.uint32)
    found = run(device, logits, drawing, range(6), seen)
    expected = [token_of(logits[row], drawing, row, row, seen[row] != 0) for row in range(6)]
    assert found[1][:, 0].tolist() == expected
    if drawing.repetition_penalty != 1:
        assert all(found[0][row, token] == 1 for row, token in enumerate(expected))


@pytest.mark.parametrize("drawing", DRAWINGS, ids=str)
def test_frequencies_follow_the_probabilities(device, drawing):
    """Chi-square of 200 rows x 2 draws over 12 tokens; 35 is beyond the 99.95th percentile of 11 degrees of freedom."""
    logits = (1.5 * RNG.standard_normal(12)).astype(np.float32)
    drawn = np.concatenate([run(device, np.tile(logits, (200, 1)), drawing, [position] * 200)[1][:, 0] for position in (1, 2)])
    p = probabilities(filtered(logits, drawing))
    counts = np.bincount(drawn, minlength=12)
    assert not counts[p == 0].any()
    kept = p > 0
    assert ((counts[kept] - 400 * p[kept]) ** 2 / (400 * p[kept])).sum() < 35


def test_same_seed_same_token_other_seed_another(device):
    logits = np.zeros((4, 1000), np.float32)
    one, same, other = (run(device, logits, Drawing(True, seed=seed), [5] * 4)[1] for seed in (2**40 + 1, 2**40 + 1, 1))
    assert np.array_equal(one, same) and not np.array_equal(one, other) and len(set(one[:, 0].tolist())) > 1


def test_logits_that_are_no_numbers_give_minus_one(device):
    logits = np.zeros((2, 100), np.float32)
    logits[1, 50] = np.nan
    assert run(device, logits, Drawing(True), [0, 0])[3][:, 0].tolist()[1] == -1


def test_the_penalty_makes_positive_and_negative_scores_less_likely():
    assert penalised(np.array([2.0, -2.0, 3.0]), np.array([True, True, False]), 2.0).tolist() == [1.0, -4.0, 3.0]
