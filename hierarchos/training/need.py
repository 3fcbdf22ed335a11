"""The memory that training needs, planned without touching a device's memory."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.need import Need, need_of, states_of
from hierarchos.graph.tensor import Graph
from hierarchos.graph.tuning import tuned_plan
from hierarchos.models.family import Model
from hierarchos.training.graphs import (
    CARRY,
    FIRST,
    FROZEN,
    GRADIENTS,
    PARAMETERS,
    SECOND,
    gradient_graph,
    loss_graph,
    step_graph,
    update_graph,
)
from hierarchos.training.groups import update_of
from hierarchos.training.precision import FP32, SCALING, Precision
from hierarchos.training.settings import TrainSettings
from hierarchos.training.state import DECAY, allocate_state

Shapes = Sequence[tuple[int, int]]                  # (rows, tokens of a row)

NAMES = {FROZEN: "frozen weights", PARAMETERS: "weights", GRADIENTS: "gradients", FIRST: "moments", SECOND: "moments", CARRY: "moments",
         DECAY: "decay groups", SCALING: "loss scale"}


class Planner:
    """Plans runs of one model on one device, of which it reads `info` only, unless matrix products are to be measured on it."""

    def __init__(self, model: Model, device, precision: Precision = FP32):
        self.model, self.device, self.precision = model, device, precision
        self.parameters = model.parameters

    def training(self, settings: TrainSettings, shapes: Shapes, validation: Shapes = ()) -> Need:
        """The need of a run whose batches have these shapes. Exact for one shape; of several the largest is planned, whose
        activations the others share, and their inputs and outputs are counted as large as its own."""
        layout = StoreLayout()
        allocate_state(layout, self.parameters, settings.optimizer, self.precision)
        return self.need(layout, self.graphs(settings, layout, shapes, validation))

    def states(self, settings: TrainSettings) -> Need:
        """What a run keeps all the time, whatever its batches: known without a plan, so at once for a model of any size."""
        layout = StoreLayout()
        allocate_state(layout, self.parameters, settings.optimizer, self.precision)
        return Need(states_of(layout, NAMES))

    def evaluation(self, shapes: Shapes) -> Need:
        """The need of measuring a loss over batches of these shapes."""
        layout = StoreLayout()
        allocate_state(layout, self.parameters, None)
        return self.need(layout, [(loss_graph(self.model, *largest(shapes), precision=self.precision), len(shapes))])

    def need(self, layout: StoreLayout, graphs) -> Need:
        """The need of programs over one store: pairs of a graph and how many programs are as large as it."""
        plans = []
        for graph, count in graphs:
            plans += [tuned_plan(graph, self.device, layout)] * count
        return need_of(layout, NAMES, plans, self.device.info)

    def graphs(self, settings: TrainSettings, layout: StoreLayout, shapes: Shapes, validation: Shapes) -> Iterator[tuple[Graph, int]]:
        """What a run compiles, each at its largest shape, and for how many shapes."""
        options = {"dropout": settings.dropout, "recompute": settings.recompute, "precision": self.precision}
        update = update_of(layout, self.parameters, settings, self.precision)
        if settings.accumulation == 1:
            yield step_graph(self.model, *largest(shapes), update=update, **options), len(shapes)
        else:
            for accumulate in (False, True):
                yield gradient_graph(self.model, *largest(shapes), accumulate=accumulate, **options), len(shapes)
            yield update_graph(update), 1
        if validation:
            yield loss_graph(self.model, *largest(validation), precision=self.precision), len(validation)


def largest(shapes: Shapes) -> tuple[int, int]:
    """The shape of most tokens."""
    return max(shapes, key=lambda shape: (shape[0] * shape[1], shape[1]))
