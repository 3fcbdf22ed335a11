"""Sampling: greedy, top-k, top-p, and random numbers that depend on seed, row and position only."""
import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.generation.sampling import Sampling, choose, kept_probabilities

LOGITS = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32))


def test_temperature_zero_takes_the_largest():
    assert choose(LOGITS, Sampling(), 0, 5) == 1


def test_frequencies_follow_the_probabilities():
    drawn = [choose(LOGITS, Sampling(temperature=1.0, seed=3), 0, position) for position in range(4000)]
    assert np.bincount(drawn, minlength=4) / 4000 == pytest.approx([0.1, 0.4, 0.2, 0.3], abs=0.03)


@pytest.mark.parametrize(("sampling", "expected"), [
    (Sampling(1.0, top_k=2), [0, 4 / 7, 0, 3 / 7]),
    (Sampling(1.0, top_p=0.69), [0, 4 / 7, 0, 3 / 7]),
    (Sampling(1.0, top_p=0.71), [0, 4 / 9, 2 / 9, 3 / 9]),
    (Sampling(1.0, top_p=0.01), [0, 1, 0, 0]),
    (Sampling(1.0, top_k=100), [0.1, 0.4, 0.2, 0.3]),
])
def test_kept_tokens(sampling, expected):
    assert kept_probabilities(LOGITS.astype(np.float64), sampling) == pytest.approx(expected, abs=1e-6)


def test_a_token_depends_on_seed_row_and_position_only():
    def draw(seed, row, position):
        return choose(np.zeros(1000, np.float32), Sampling(1.0, seed=seed), row, position)

    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({draw(1, 2, 3), draw(2, 2, 3), draw(1, 3, 3), draw(1, 2, 4)}) == 4


@pytest.mark.parametrize(("change", "message"), [
    ({"temperature": -1.0}, "temperature is -1.0; it can be 0"), ({"top_k": -1}, "top_k is -1"), ({"top_p": 0.0}, "top_p is 0.0"),
    ({"top_p": 1.5}, "top_p is 1.5")])
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        Sampling(**change)


def test_damaged_logits_stop_the_generation():
    with pytest.raises(UserError, match="the logits of row 2 at position 7 are not finite"):
        choose(np.array([1, np.nan], np.float32), Sampling(), 2, 7)
