"""The gates of parity: twice PyTorch's error, a floor of 2e-7 of the largest value, none of it for NaN."""
import numpy as np
import pytest

from validation.parity.gates import SETTINGS, after_steps, largest, root_mean_square
from validation.parity.report import kind_of

TRUTH = np.array([1.0, -4.0])


def off(first: float, second: float) -> np.ndarray:
    """The truth with an error in each element."""
    return TRUTH + np.array([first, second])


@pytest.mark.parametrize(("error", "pytorch", "passed"), [
    (7.9e-7, 0.0, True), (8.1e-7, 0.0, False), (1.9e-6, 1e-6, True), (2.1e-6, 1e-6, False), (float("nan"), 1e-6, False)])
def test_the_largest_error_is_bounded_by_twice_pytorchs_or_the_floor(error, pytorch, passed):
    assert largest(off(error, 0), TRUTH, off(0, pytorch)).passed is passed


def test_two_steps_know_no_exception():
    (kind, measure), = after_steps(SETTINGS[0], off(9e-7, 0), TRUTH, [off(0, 1e-6)], np.ones(2, bool))
    assert (kind, measure.passed) == ("max", False)


def test_noise_is_judged_by_rms_and_by_firm_elements():
    ours, single = off(1e-3, 0), off(0, 1e-6)
    measures = dict(after_steps(SETTINGS[2], ours, TRUTH, [single], np.array([False, True])))
    assert measures["max of firm"].passed
    assert not measures["rms"].passed
    assert root_mean_square(TRUTH + 0.9e-7, TRUTH, TRUTH).passed


def test_the_worst_order_of_pytorch_sets_the_gate():
    singles = [off(0, 1e-9), off(0, 1e-5)]
    measures = dict(after_steps(SETTINGS[2], off(1.9e-5, 0), TRUTH, singles, np.ones(2, bool)))
    assert measures["max of firm"].passed
    assert measures["rms"].passed


@pytest.mark.parametrize(("quantity", "column"), [
    ("gradient of model.norm.weight", "gradients"), ("a.weight after 2 steps, eps 0.001, decay 0, max", "2 steps, eps 1e-3"),
    ("a.weight after 10 steps, eps 1e-08, decay 0.1, rms", "10 steps, eps 1e-8, decay 0.1, rms"),
    ("exported package in Transformers, logits", "packages")])
def test_quantities_have_a_column(quantity, column):
    assert kind_of(quantity) == column
