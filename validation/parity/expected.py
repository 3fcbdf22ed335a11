"""What a case is compared with, whoever says it: Transformers now (`asked.py`) or when a portable folder was written (`portable.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from hierarchos.models.family import Model
from validation.parity.gates import Measure, Noise


class Truth(Protocol):
    """Arrays in float64: logits [B,T,V], loss, gradients (None: no gradient), and of each setting the parameters after it and which
    of their elements were firm."""

    logits: np.ndarray
    loss: np.ndarray
    gradients: Mapping[str, np.ndarray | None]
    after: Mapping[tuple, Mapping[str, np.ndarray]]
    firm: Mapping[tuple, Mapping[str, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Errors:
    """p: the largest error of float32 PyTorch in each quantity."""

    logits: float
    loss: float
    gradients: dict[str, float]
    after: dict[tuple, dict[str, float]]


def no_packages(model: Model) -> Iterator[tuple[str, Measure]]:
    """Where Transformers is not there to write and read any."""
    return iter(())


@dataclass(frozen=True, eq=False)
class Expected:
    """raw: config.json. values: float32 parameters. arrays: the batch. errors, noise: of PyTorch, the latter after the run with eps 1e-8.
    packages(model): measures of packages written on either side and read on the other."""

    raw: dict
    values: dict[str, np.ndarray]
    arrays: dict[str, np.ndarray]
    truth: Truth
    errors: Errors
    noise: dict[str, Noise]
    packages: Callable[[Model], Iterator[tuple[str, Measure]]] = field(default=no_packages)
