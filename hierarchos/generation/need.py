"""The memory that generation needs, planned without touching a device's memory."""

from __future__ import annotations

from hierarchos.generation.cache import cache_specs, decode_graph, step_graph, step_specs
from hierarchos.generation.generator import capacity_for
from hierarchos.generation.policy import Policy
from hierarchos.generation.session import ARENA, STEP_ARENA, chunks_for
from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.need import Need, need_of
from hierarchos.graph.plan import plan_program
from hierarchos.graph.profile import profile_of
from hierarchos.models.family import Model
from hierarchos.nn.stored import place_of

PARAMETERS = "parameters"
NAMES = {PARAMETERS: "weights", ARENA: "keys and values", STEP_ARENA: "state of the sampler"}


def generation_need(model: Model, device, rows: int, longest: int, policy: Policy) -> Need:
    """The need of continuing `rows` prompts of at most `longest` tokens; `device` is asked for its `info` only."""
    rows = policy.num_beams if policy.num_beams > 1 else policy.top_k if policy.contrastive else rows * policy.num_return_sequences
    capacity = capacity_for(model, longest + policy.new_tokens(longest))
    layout = StoreLayout()
    layout.allocate(PARAMETERS, {spec.name: place_of(spec) for spec in model.parameters})
    layout.allocate(ARENA, cache_specs(decode_graph(model, rows, 1, capacity)))
    layout.allocate(STEP_ARENA, step_specs(model, rows))
    lengths = chunks_for(longest - 1) if policy.on_device else sorted({*chunks_for(longest), 1}, reverse=True)
    graphs = [decode_graph(model, rows, length, capacity, policy.contrastive) for length in lengths]
    graphs += [step_graph(model, rows, capacity)] if policy.on_device else []
    plans = [plan_program(graph, profile_of(device), layout, device.info.max_allocation or None) for graph in graphs]
    return need_of(layout, NAMES, plans, device.info)
