"""Groups of parameters that the optimizer treats alike: what share of the learning rate they have, and whether they decay."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hierarchos.graph.layout import StoreLayout
from hierarchos.nn.weights import ParameterSpec
from hierarchos.training.graphs import CARRY, PARAMETERS, Update
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


def carries(spec: ParameterSpec, optimizer: OptimizerSettings) -> bool:
    """Whether AdamW keeps what rounding leaves off this parameter for the next step.

    A number that moves by the same amount in every step is rounded the same way in every step: ten steps of 1e-3 put 1.0 up to 6e-7
    off, and steps below half a unit of its last place are lost. Scalars and vectors are few, so it costs no memory to speak of."""
    return optimizer.name == "adamw" and spec.trained and len(spec.shape) < 2


def update_of(layout: StoreLayout, specs: Sequence[ParameterSpec], settings: TrainSettings, precision: Precision = FP32) -> Update:
    """The optimizer step of a run over the arenas of a layout."""
    optimizer = settings.optimizer
    floats, carried = (layout.find(arena).spec.size if arena in layout.arenas else 0 for arena in (PARAMETERS, CARRY))
    groups = len(groups_of(specs, optimizer))
    return Update(floats, optimizer.name, optimizer.momentum > 0, settings.max_grad_norm, groups, precision, carried)
