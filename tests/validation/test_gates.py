"""The gates of parity: twice PyTorch's error, a floor of 2e-7 of the largest value, none of it for NaN."""
import numpy as np
import pytest

from validation.parity.gates import SETTINGS, Noise, after_noise, after_steps, largest, noise
from validation.parity.report import kind_of

TRUTH = np.array([1.0, -4.0])


def off(first: float, second: float) -> np.ndarray:
    """The truth with an error in each element."""
    return TRUTH + np.array([first, second])


@pytest.mark.parametrize(("error", "pytorch", "passed"), [
    (7.9e-7, 0.0, True), (8.1e-7, 0.0, False), (1.9e-6, 1e-6, True), (2.1e-6, 1e-6, False), (float("nan"), 1e-6, False)])
def test_the_largest_error_is_bounded_by_twice_pytorchs_or_the_floor(error, pytorch, passed):
    assert largest(off(error, 0), TRUTH, pytorch).passed is passed


def test_two_steps_know_no_exception():
    assert not after_steps(SETTINGS[0], off(9e-7, 0), TRUTH, 1e-6).passed


def test_noise_is_judged_by_rms_and_by_firm_elements():
    firm = np.array([False, True])
    measures = dict(after_noise(noise(off(1e-3, 0), TRUTH, firm), noise(off(0, 1e-6), TRUTH, firm)))
    assert measures["max of firm"].passed
    assert not measures["rms"].passed


def test_the_noise_of_a_parameter_is_measured_over_all_and_over_firm_elements():
    found = noise(off(3e-3, 4e-3), TRUTH, np.array([True, False]))
    assert (found.rms, found.firm, found.scale) == (pytest.approx(3.5355e-3, rel=1e-4), pytest.approx(3e-3), 4.0)
    assert noise(TRUTH, TRUTH, np.zeros(2, bool)).gates() == (1e-7, 8e-7)


def test_one_run_of_pytorch_sets_the_gate():
    assert all(measure.passed for _, measure in after_noise(Noise(1.9e-5, 1.9e-5, 1.0), Noise(1e-5, 1e-5, 1.0)))
    assert not any(measure.passed for _, measure in after_noise(Noise(2.1e-5, 2.1e-5, 1.0), Noise(1e-5, 1e-5, 1.0)))


@pytest.mark.parametrize(("quantity", "column"), [
    ("gradient of model.norm.weight", "gradients"), ("a.weight after 2 steps, eps 0.001, decay 0, max", "2 steps, eps 1e-3"),
    ("a.weight after 10 steps, eps 1e-08, decay 0.1, rms", "10 steps, eps 1e-8, decay 0.1, rms"),
    ("exported package in Transformers, logits", "packages")])
def test_quantities_have_a_column(quantity, column):
    assert kind_of(quantity) == column
