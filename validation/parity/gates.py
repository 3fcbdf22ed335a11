"""The gates of design.md, decision 10: e = |ours - float64|, p = |float32 PyTorch - float64|, s = max(1, largest |float64|)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

FLOOR = 2e-7
SETTINGS = ((2, 1e-3, 0.0), (10, 1e-3, 0.1), (10, 1e-8, 0.1))     # AdamW: steps, eps, decay; lr 1e-3, betas 0.9 and 0.999
NOISY = SETTINGS[2]


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


def share(measure: Measure | Record) -> float:
    """Error as a share of its gate; at most 1 passes."""
    if measure.gate == 0:
        return 0.0 if measure.error == 0 else float("inf")
    return measure.error / measure.gate if measure.error == measure.error else float("inf")


def largest(ours, truth, reference: float, factor: float = 2.0) -> Measure:
    """max e <= max(2e-7 s, factor * max p). reference: max p."""
    ours, truth = (np.asarray(x, np.float64) for x in (ours, truth))
    if truth.size == 0:
        return Measure(0.0, 0.0, FLOOR)
    return Measure(_max(ours - truth), reference, max(FLOOR * max(1.0, _max(truth)), factor * reference))


def _max(array: np.ndarray) -> float:
    return float(np.abs(array).max())


def after_steps(setting: tuple, ours, truth, reference: float) -> Measure:
    """One parameter after a run of AdamW with eps 1e-3, by the gate of that setting."""
    return largest(ours, truth, reference, factor=0.0 if setting == SETTINGS[0] else 2.0)


@dataclass(frozen=True)
class Noise:
    """Errors of one parameter where eps is 1e-8: of all elements, of those whose gradient stayed firm; scale: s above."""

    rms: float
    firm: float
    scale: float

    def gates(self) -> tuple[float, float]:
        """What `rms` and `firm` of another result may be, when these are PyTorch's."""
        return max(1e-7, 2 * self.rms), max(FLOOR * self.scale, 2 * self.firm)


def noise(found, truth, firm) -> Noise:
    """Errors of a result. firm: mask of the elements whose float64 gradient stayed above `oracle.FIRM` of its tensor's largest."""
    difference = np.asarray(found, np.float64) - truth
    return Noise(float(np.sqrt(np.mean(np.square(difference)))), _max(difference[firm]) if firm.any() else 0.0,
                 max(1.0, _max(np.asarray(truth))))


def after_noise(ours: Noise, theirs: Noise) -> list[tuple[str, Measure]]:
    """Measures of one parameter after the run with eps 1e-8. theirs: the errors of float32 PyTorch, p."""
    rms, firm = theirs.gates()
    return [("rms", Measure(ours.rms, theirs.rms, rms)), ("max of firm", Measure(ours.firm, theirs.firm, firm))]
