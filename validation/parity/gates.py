"""The gates of design.md, decision 10: e = |ours - float64|, p = |float32 PyTorch - float64|, s = max(1, largest |float64|)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

FLOOR = 2e-7
SETTINGS = ((2, 1e-3, 0.0), (10, 1e-3, 0.1), (10, 1e-8, 0.1))     # AdamW: steps, eps, decay; lr 1e-3, betas 0.9 and 0.999


@dataclass(frozen=True)
class Record:
    """One compared quantity. `error` and `pytorch_error` are what the gate bounds: largest or root mean square."""

    model_type: str
    variant: str
    quantity: str
    error: float
    pytorch_error: float
    gate: float
    passed: bool
    device: str = ""
    driver: str = ""

    def as_dict(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Measure:
    """error, PyTorch's error and the gate of one tensor."""

    error: float
    pytorch_error: float
    gate: float

    @property
    def passed(self) -> bool:
        return bool(self.error <= self.gate)     # NaN fails


def largest(ours, truth, single, factor: float = 2.0) -> Measure:
    """max e <= max(2e-7 s, factor * max p)."""
    ours, truth, single = (np.asarray(x, np.float64) for x in (ours, truth, single))
    if truth.size == 0:
        return Measure(0.0, 0.0, FLOOR)
    error, reference = _max(ours - truth), _max(single - truth)
    return Measure(error, reference, max(FLOOR * max(1.0, _max(truth)), factor * reference))


def root_mean_square(ours, truth, single) -> Measure:
    """rms e <= max(1e-7, 2 rms p)."""
    error, reference = (float(np.sqrt(np.mean(np.square(np.asarray(x, np.float64) - truth)))) for x in (ours, single))
    return Measure(error, reference, max(1e-7, 2 * reference))


def _max(array: np.ndarray) -> float:
    return float(np.abs(array).max())


def after_steps(setting: tuple, ours, truth, singles: list, firm) -> list[tuple[str, Measure]]:
    """Measures of one parameter after a run of AdamW, by the gate of that setting.

    singles: float32 PyTorch; where eps is 1e-8, in several orders of the same mathematics. There AdamW turns rounding noise of small
    gradients into full steps, so that one order's error is a matter of luck: PyTorch's own orders fail each other's gates. p is then
    the largest of theirs."""
    single = singles[0]
    if setting == SETTINGS[0]:
        return [("max", largest(ours, truth, single, factor=0.0))]
    if setting == SETTINGS[1]:
        return [("max", largest(ours, truth, single))]
    scale = max(1.0, _max(np.asarray(truth)))
    over_firm = worst_reference([largest(ours[firm], truth[firm], single[firm]) for single in singles])
    over_firm = Measure(over_firm.error, over_firm.pytorch_error, max(FLOOR * scale, 2 * over_firm.pytorch_error))
    return [("rms", worst_reference([root_mean_square(ours, truth, single) for single in singles])), ("max of firm", over_firm)]


def worst_reference(measures: list[Measure]) -> Measure:
    """The measure with PyTorch's largest error."""
    return max(measures, key=lambda measure: measure.pytorch_error)
