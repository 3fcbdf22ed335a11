"""Whole training steps of a small Llama and GPT-2: passes keep its numbers, the device agrees, runs repeat bit for bit."""

import numpy as np
import pytest

from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.passes import optimise
from hierarchos.graph.plan import plan_program
from hierarchos.graph.program import compile_program
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import NUMPY_NAME, Spec
from hierarchos.kernels.launch import Profile
from hierarchos.models.registry import resolve
from hierarchos.training.graphs import DECAY_GROUPS, FIRST, GRADIENTS, PARAMETERS, SECOND, Update, gradient_graph, step_graph
from tests.support import use_gpu_kernels

CONFIGS = {
    "llama": {"model_type": "llama", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True},
    "gpt2": {"model_type": "gpt2", "vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 9, "resid_pdrop": 0.0,
             "embd_pdrop": 0.0, "attn_pdrop": 0.0},
}
families = pytest.mark.parametrize("family", CONFIGS)
ROWS, LENGTH = 2, 7


def lay_out(family, target):
    """Makes the arenas of training in a StoreLayout or a StateStore; returns the floats of one."""
    model = resolve(CONFIGS[family])
    target.allocate(PARAMETERS, {p.name: Spec(p.shape) for p in model.parameters})
    for arena in (GRADIENTS, FIRST, SECOND):
        target.mirror(arena, PARAMETERS)
    floats = getattr(target, "layout", target).arenas[PARAMETERS] // 4
    target.allocate("groups", {DECAY_GROUPS: Spec((floats // 64,), "u32")})
    return floats


def step(family, floats, recompute=False):
    return step_graph(resolve(CONFIGS[family]), ROWS, LENGTH, False, recompute, Update(floats, max_norm=1.0))


def values(family):
    from hierarchos.kernels.optimizer import adamw_scalars
    random = np.random.default_rng(3)
    ids = random.integers(0, 40, (ROWS, LENGTH), dtype="int32")
    feeds = {"ids": ids, "targets": np.roll(ids, -1, 1), "positions": np.tile(np.arange(LENGTH, dtype="int32"), (ROWS, 1)),
             "segments": np.ones((ROWS, LENGTH), "int32"), "token_weights": np.full((ROWS, LENGTH), 1 / 14, "float32"),
             "scalars": adamw_scalars(1, [(1e-2, 0.1), (1e-2, 0.0)], (0.9, 0.999), 1e-3)}
    return feeds, {p.name: random.normal(0.5, 0.3, p.shape).astype("float32") for p in resolve(CONFIGS[family]).parameters}


def numpy_states(layout: StoreLayout, parameters: dict, dtype: str) -> dict:
    """Every named tensor as a view of its arena."""
    arenas = {name: np.zeros(nbytes // 4, dtype if name != "groups" else "uint32") for name, nbytes in layout.arenas.items()}
    states = {}
    for name, place in layout.locations.items():
        flat = arenas[place.arena].view(NUMPY_NAME["u32"] if place.arena == "groups" else dtype)
        states[name] = flat[place.offset // 4:place.offset // 4 + place.spec.size].reshape(place.spec.shape)
    for name, array in parameters.items():
        states[name][...] = array
    return states


def in_numpy(family, graph, layout):
    feeds, parameters = values(family)
    states = numpy_states(layout, parameters, "float64")
    outputs, after = evaluate(graph, feeds, states, "float64")
    return outputs | {name: after[name].copy() for name in (PARAMETERS, GRADIENTS)}


def on_device(family, device, recompute):
    store = StateStore(device)
    floats = lay_out(family, store)
    feeds, parameters = values(family)
    for name, array in parameters.items():
        store.write(name, array)
    program = compile_program(step(family, floats, recompute), device, store)
    assert program.plan.peak_bytes == program.allocated_bytes
    outputs = program.run(feeds)
    result = outputs | {name: store.read(name) for name in (PARAMETERS, GRADIENTS)}
    program.close()
    for arena in list(store.allocations):
        store.free(arena)
    return result


@families
@pytest.mark.parametrize("recompute", [False, True])
def test_passes_keep_the_numbers_of_a_step(family, recompute):
    layout = StoreLayout()
    graph = step(family, lay_out(family, layout), recompute)
    plain, fused = in_numpy(family, graph, layout), in_numpy(family, optimise(graph, layout), layout)
    for name, array in plain.items():
        np.testing.assert_allclose(fused[name], array, rtol=1e-9, atol=1e-12, err_msg=name)


@families
def test_a_step_assigns_no_gradient_by_copying(family):
    layout = StoreLayout()
    plan = plan_program(step(family, lay_out(family, layout)), Profile(), layout)
    assert "Assign" not in [type(op).__name__ for op in plan.placement.ops.values()]


@families
def test_a_step_on_the_device_equals_float64_and_repeats_its_bits(device, family):
    layout = StoreLayout()
    truth = in_numpy(family, step(family, lay_out(family, layout)), layout)
    first, second, recomputed = on_device(family, device, False), on_device(family, device, False), on_device(family, device, True)
    for name, array in truth.items():
        assert np.abs(first[name] - array).max() <= 2e-6 * max(1.0, np.abs(array).max()), name
        assert first[name].tobytes() == second[name].tobytes() == recomputed[name].tobytes(), name


@families
def test_gradients_accumulate_in_place_on_the_device(device, family):
    store = StateStore(device)
    lay_out(family, store)
    feeds, parameters = values(family)
    del feeds["scalars"]
    for name, array in parameters.items():
        store.write(name, array)
    write, add = (compile_program(gradient_graph(resolve(CONFIGS[family]), ROWS, LENGTH, False, False, accumulate), device, store)
                  for accumulate in (False, True))
    assert "Assign" not in [type(op).__name__ for op in add.plan.placement.ops.values()]
    write.run(feeds)
    once = store.read(GRADIENTS)
    add.run(feeds)
    np.testing.assert_allclose(store.read(GRADIENTS), 2 * once, rtol=1e-5, atol=1e-6 * np.abs(once).max())
    for program in (write, add):
        program.close()
    for arena in list(store.allocations):
        store.free(arena)


@families
def test_the_kernels_for_gpus_give_the_same_step(device, family, monkeypatch):
    use_gpu_kernels(monkeypatch, 16)
    layout = StoreLayout()
    truth, result = in_numpy(family, step(family, lay_out(family, layout)), layout), on_device(family, device, False)
    for name, array in truth.items():
        assert np.abs(result[name] - array).max() <= 2e-6 * max(1.0, np.abs(array).max()), name
