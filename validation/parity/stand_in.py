"""PyTorch's float32 in place of a device: `compare.py` judges it as it judges ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import cached_property

import numpy as np

from hierarchos.models.registry import resolve
from validation.names import named_parameters
from validation.parity import compare, oracle
from validation.parity.cases import Case
from validation.parity.expected import Expected
from validation.parity.gates import SETTINGS, Measure
from validation.parity.shuffled import RoundedResults


class StandIn:
    """Another float32 implementation of a case, as far as PyTorch can be one. number: which sums and roundings; 0 is PyTorch as it is."""

    def __init__(self, case: Case, reference, arrays: dict, number: int):
        self.reference, self.number = reference, number
        self.batch = oracle.inputs_of(case, reference, arrays)
        self.start = [parameter.detach().clone() for parameter in reference.parameters()]

    def rounding(self):
        """A context, a new one at each call, so that each run repeats itself."""
        return RoundedResults(self.number) if self.number else nullcontext()

    @cached_property
    def first(self) -> oracle.Results:
        """Of the values that the case starts from."""
        self.reference.zero_grad(set_to_none=True)
        with self.rounding():
            return oracle.first(self.reference, self.batch)

    def logits(self) -> np.ndarray:
        return self.first.logits

    def gradients(self) -> tuple[np.ndarray, dict[str, np.ndarray | None]]:
        return self.first.loss, self.first.gradients

    def train(self, *setting) -> dict[str, np.ndarray]:
        """Parameters after AdamW, which is PyTorch's; the reference has the values it started from again."""
        oracle.train(self.reference, self.batch, *setting, mode=self.rounding(), watch=False)
        after = {name: oracle.array_of(parameter) for name, parameter in named_parameters(self.reference)}
        for parameter, value in zip(self.reference.parameters(), self.start, strict=True):
            parameter.data.copy_(value)
        return after


def measures(case: Case, reference, expected: Expected, number: int, settings=SETTINGS) -> Iterator[Measure]:
    """What a device is measured by, of stand-in `number`, one after the other as they are asked for."""
    engine = StandIn(case, reference, expected.arrays, number)
    for part in (compare.forward(engine, expected), compare.gradients(engine, resolve(expected.raw), expected),
                 compare.steps(engine, expected, settings)):
        yield from (measure for _, measure in part)
