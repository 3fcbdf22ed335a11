"""The self-test says right for a right device and names the kernel that is wrong."""
from __future__ import annotations

from pipelines import selftest


def test_all_kernels_of_this_device_are_right(device):
    outcomes = list(selftest.selftest(device))
    assert [outcome.name for outcome in outcomes] == list(selftest.CASES)
    assert [outcome for outcome in outcomes if not outcome.passed] == []


def test_wrong_kernel_is_named_and_the_device_refused(place, monkeypatch):
    monkeypatch.setattr(selftest, "CASES", {"norms": None, "sums": None})
    monkeypatch.setattr(selftest, "largest_error", lambda device, build: 0.5)
    ended = place.call("doctor")
    assert ended.status == 3
    assert "norms                   WRONG  5.0e-01" in ended.out
    assert "must not be used: norms, sums wrong; update its driver, or choose another device" in ended.out


def test_kernel_that_cannot_run_is_named(device, monkeypatch):
    monkeypatch.setattr(selftest, "CASES", {"norms": lambda: 1 / 0})
    [outcome] = selftest.selftest(device)
    assert not outcome.passed and outcome.failure.startswith("ZeroDivisionError")
