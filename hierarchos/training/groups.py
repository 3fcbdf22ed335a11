"""Groups of parameters that the optimizer treats alike: what share of the learning rate they have, and whether they decay."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hierarchos.nn.weights import ParameterSpec
from hierarchos.training.graphs import Update
from hierarchos.training.precision import FP32, Precision
from hierarchos.training.settings import OptimizerSettings, TrainSettings, decays


@dataclass(frozen=True)
class Group:
    """rate: of its learning rate to that of the run. decays: whether weight decay applies."""

    rate: float
    decays: bool


USUAL = (Group(1.0, True), Group(1.0, False))       # numbers 0 and 1 in every run


def group_of(spec: ParameterSpec, optimizer: OptimizerSettings) -> Group:
    """The group of a trained parameter."""
    return Group(spec.rate, decays(spec, optimizer))


def groups_of(specs: Sequence[ParameterSpec], optimizer: OptimizerSettings) -> tuple[Group, ...]:
    """All groups of a run; a group's number is its place."""
    return tuple(dict.fromkeys((*USUAL, *(group_of(spec, optimizer) for spec in specs if spec.trained))))


def update_of(floats: int, specs: Sequence[ParameterSpec], settings: TrainSettings, precision: Precision = FP32) -> Update:
    """The optimizer step of a run over arenas of `floats` floats."""
    optimizer = settings.optimizer
    return Update(floats, optimizer.name, optimizer.momentum > 0, settings.max_grad_norm, len(groups_of(specs, optimizer)), precision)
