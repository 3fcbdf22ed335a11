"""Schedules agree with their definition at the points that matter."""
import pytest

from hierarchos.training.schedule import learning_rate, warmup_steps


@pytest.mark.parametrize("schedule, middle, last", [("constant", 1.0, 1.0), ("linear", 0.5, 0.0), ("cosine", 0.5, 0.0)])
def test_shape_after_warmup(schedule, middle, last):
    rates = [learning_rate(step, 110, 1.0, schedule, warmup=10) for step in range(111)]
    assert rates[:11] == pytest.approx([step / 10 for step in range(11)])
    assert rates[60] == pytest.approx(middle)
    assert rates[110] == pytest.approx(last, abs=1e-12)


def test_a_warmup_below_one_is_a_ratio():
    assert (warmup_steps(0.1, 55), warmup_steps(10, 55), warmup_steps(0, 55)) == (6, 10, 0)


def test_floor_is_a_share_of_the_peak():
    assert learning_rate(100, 100, 2.0, "cosine", floor=0.1) == pytest.approx(0.2)
