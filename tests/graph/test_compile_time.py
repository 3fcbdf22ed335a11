"""Planning takes time in proportion to the layers, and layers of one kind share their kernels."""
import time

import pytest

from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.plan import Plan, plan_program
from hierarchos.graph.tensor import Spec
from hierarchos.kernels.launch import Launch, Profile
from hierarchos.models.registry import resolve
from hierarchos.training.graphs import step_graph
from hierarchos.training.groups import update_of
from hierarchos.training.state import allocate_state
from pipelines.config.train import TrainConfig

SMOLLM2 = {"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9,
           "num_key_value_heads": 3, "max_position_embeddings": 2048, "tie_word_embeddings": True}


def step_plan(layers: int) -> Plan:
    """The plan of a training step of SmolLM2-135M's shape with so many layers."""
    model, settings, layout = resolve({**SMOLLM2, "num_hidden_layers": layers}), TrainConfig(), StoreLayout()
    allocate_state(layout, model.parameters, settings.optimizer)
    graph = step_graph(model, 1, 512, dropout=False, recompute=False, update=update_of(layout, model.parameters, settings))
    return plan_program(graph, Profile(), layout)


def kernels(plan: Plan) -> set:
    """What the device compiles."""
    return {(getattr(launch.shader, "name", launch.shader), launch.constants) for lowering in plan.placement.lowerings.values()
            for launch in lowering.launches if isinstance(launch, Launch)}


def test_thirty_layers_are_traced_and_planned_in_three_seconds_of_one_core():
    start = time.process_time()
    step_plan(30)
    assert time.process_time() - start < 3.0        # 0.5 s measured


def test_more_layers_need_no_more_kernels():
    assert kernels(step_plan(8)) == kernels(step_plan(4))


def test_overlapping_names_are_found_as_by_looking_at_each():
    layout = StoreLayout()
    for arena in ("weights", "others"):
        layout.allocate(arena, {f"{arena} {i}": Spec((64 + 3 * i,)) for i in range(6)})
    layout.mirror("gradients", "weights")
    names = [*layout.locations, layout.join(["weights 0", "weights 0"]) or "weights 0"]
    among = layout.overlap.index(names)
    for name in layout.locations:
        assert sorted(among(name)) == sorted(other for other in names if layout.overlap(other, name))


def test_neighbours_overlap_what_they_are_made_of():
    layout = StoreLayout()
    layout.allocate("weights", {name: Spec((64, 4)) for name in "abcd"})
    both = layout.join(["b", "c"])
    among = layout.overlap.index([*"abcd", "weights", both])
    assert sorted(among("b")) == sorted(["b", both, "weights"])
    assert sorted(among(both)) == sorted(["b", "c", both, "weights"])
    assert among("a") == ["weights", "a"]


@pytest.mark.parametrize("unknown", ["e", "a & e"])
def test_a_name_that_is_not_there_is_refused_with_the_nearest(unknown):
    layout = StoreLayout()
    layout.allocate("weights", {"a": Spec((64,))})
    with pytest.raises(KeyError, match="the store has no tensor 'e'"):
        layout.overlap("a", unknown)
