"""The memory that generation needs, planned without touching a device's memory."""

from __future__ import annotations

from hierarchos.generation.cache import cache_specs, decode_graph
from hierarchos.generation.generator import capacity_for
from hierarchos.generation.session import ARENA, chunks_for
from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.need import Need, need_of
from hierarchos.graph.plan import plan_program
from hierarchos.graph.profile import profile_of
from hierarchos.graph.tensor import Spec
from hierarchos.models.family import Model

PARAMETERS = "parameters"
NAMES = {PARAMETERS: "weights", ARENA: "keys and values"}


def generation_need(model: Model, device, rows: int, longest: int, max_new_tokens: int) -> Need:
    """The need of continuing `rows` prompts of at most `longest` tokens; `device` is asked for its `info` only."""
    capacity = capacity_for(model, longest + max_new_tokens)
    layout = StoreLayout()
    layout.allocate(PARAMETERS, {spec.name: Spec(spec.shape) for spec in model.parameters})
    graphs = [decode_graph(model, rows, length, capacity) for length in sorted({*chunks_for(longest), 1}, reverse=True)]
    layout.allocate(ARENA, cache_specs(graphs[-1]))
    plans = [plan_program(graph, profile_of(device), layout, device.info.max_allocation or None) for graph in graphs]
    return need_of(layout, NAMES, plans, device.info)
