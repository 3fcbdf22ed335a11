"""Products that share an input become one where their weights are neighbours, and nothing else changes."""
import numpy as np
import pytest

from hierarchos.graph import functions as F
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.op import tracing
from hierarchos.graph.ops.joins import Concat, Joined, Within
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.ops.rope import Rope
from hierarchos.graph.passes import optimise
from hierarchos.graph.plan import plan_program
from hierarchos.graph.program import compile_program
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Graph, Spec
from hierarchos.kernels.launch import Profile

ROWS, TIMES, WIDTH, HEADS = 2, 5, 16, 4
SIZES = {"q": 16, "k": 8, "v": 8}                   # weights of 256 and 128 floats: neighbours


def arenas(target, sizes=SIZES, width=WIDTH):
    target.allocate("parameters", {name: Spec((size, width)) for name, size in sizes.items()})
    target.mirror("gradients", "parameters")
    return target


def attention_step(accumulate=False, recompute=False, sizes=SIZES, width=WIDTH, keep=()):
    """Rotated grouped attention of one input, the gradients of its weights and of the input."""
    with tracing(Graph()) as graph:
        x, positions = F.input("x", (ROWS, TIMES, width)), F.input("positions", (ROWS, TIMES), "i32")
        table = F.constant(np.linspace(0.1, 0.9, TIMES * 2, dtype="float32").reshape(TIMES, 2))
        h = x * 0.5
        weights = {name: F.state(name, (size, width)) for name, size in sizes.items()}
        with F.checkpoint("block") if recompute else tracing(graph):
            parts = {name: F.linear(h, weight) for name, weight in weights.items()}
            q, k, v = (F.reshape(t, (ROWS, TIMES, t.shape[2] // 4, 4)) for t in parts.values())
            mixed = F.attention(F.rope(q, table, table, positions), F.rope(k, table, table, positions), v)
            loss = F.sum(mixed * mixed, (0, 1, 2, 3), False)
        gradients = F.gradients(loss, [x, *weights.values()])
        graph.outputs = {"loss": loss, "dx": gradients[0]} | {name: parts[name] * 1.0 for name in keep}
        for name, gradient in zip(weights, gradients[1:], strict=True):
            target = F.state(f"gradients/{name}", gradient.shape)
            F.assign(target, target + gradient if accumulate else gradient)
    return graph


def feeds(width=WIDTH):
    random = np.random.default_rng(0)
    return {"x": random.normal(size=(ROWS, TIMES, width)), "positions": np.tile(np.arange(TIMES, dtype="int32"), (ROWS, 1))}


def states(layout):
    random, result = np.random.default_rng(1), {}
    memory = {arena: random.normal(0, 0.3, nbytes // 4) for arena, nbytes in layout.arenas.items()}
    for name, place in layout.locations.items():
        result[name] = memory[place.arena][place.offset // 4:place.offset // 4 + place.spec.size].reshape(place.spec.shape)
    return result


def count(graph, kind):
    return sum(isinstance(node.op, kind) for node in graph.nodes)


def same(graph, layout, width=WIDTH):
    plain = evaluate(graph, feeds(width), states(layout), "float64")
    changed = evaluate(optimise(graph, layout), feeds(width), states(layout), "float64")
    for before, after in zip(plain, changed, strict=True):
        for name, array in before.items():
            np.testing.assert_allclose(after[name], array, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("recompute", [False, True])
def test_q_k_v_are_one_product_forward_and_backward(accumulate, recompute):
    layout, graph = arenas(StoreLayout()), attention_step(accumulate, recompute)
    same(graph, layout)
    merged = optimise(graph, layout)
    assert count(merged, MatMul) == 3 + recompute           # forward (again), dx, dW
    first = next(node for node in merged.nodes if isinstance(node.op, MatMul))
    assert first.inputs[1].node.op.name == "q & k & v"


def test_q_and_k_are_rotated_together_in_place():
    merged = optimise(attention_step(), arenas(StoreLayout()))
    ropes = [node.op for node in merged.nodes if isinstance(node.op, Rope)]
    assert len(ropes) == 1 and ropes[0].in_place


def test_gradients_are_rotated_into_the_memory_of_their_product():
    merged = optimise(attention_step(), arenas(StoreLayout()))
    assert count(merged, Concat) == 0
    inside = [node.op.op for node in merged.nodes if isinstance(node.op, Within)]
    assert sum(isinstance(op, Rope) and op.inverse for op in inside) == 2
    assert all(node.op.within[:2] == (True, True) for node in merged.nodes if isinstance(node.op, Joined))


@pytest.mark.parametrize("accumulate", [False, True])
def test_the_weight_gradient_is_computed_where_it_is_kept(accumulate):
    layout = arenas(StoreLayout())
    plan = plan_program(attention_step(accumulate), Profile(), layout)
    assert "Assign" not in [type(op).__name__ for op in plan.placement.ops.values()]


def test_a_gradient_that_accumulates_keeps_nothing_alive():
    layout = arenas(StoreLayout())
    once, again = (plan_program(attention_step(accumulate), Profile(), layout) for accumulate in (False, True))
    assert again.activations == once.activations


def test_weights_that_are_no_neighbours_stay_apart():
    sizes = {"q": 12, "k": 4, "v": 4}                       # 144 and 48 floats: padding follows each
    layout, graph = arenas(StoreLayout(), sizes, width=12), attention_step(sizes=sizes, width=12)
    same(graph, layout, width=12)
    assert count(optimise(graph, layout), MatMul) == 9


def test_a_part_that_somebody_keeps_still_has_its_value():
    layout, graph = arenas(StoreLayout()), attention_step(keep=("q", "k"))
    same(graph, layout)
    assert not any(node.op.in_place for node in optimise(graph, layout).nodes if isinstance(node.op, Rope))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("recompute", [False, True])
def test_the_device_agrees_with_float64(device, accumulate, recompute):
    store, graph = arenas(StateStore(device)), attention_step(accumulate, recompute)
    start = states(store.layout)
    outputs, after = evaluate(graph, feeds(), start, "float64")
    for name, array in states(store.layout).items():
        if name not in store.allocations:
            store.write(name, array.astype("float32"))
    program = compile_program(graph, device, store)
    found = program.run({name: array.astype("float32") if array.dtype.kind == "f" else array for name, array in feeds().items()})
    found |= {name: store.read(name) for name in after if name.startswith("gradients/")}
    for name, array in found.items():
        truth = outputs.get(name, after.get(name))
        assert np.abs(array - truth).max() <= 2e-6 * max(1, np.abs(truth).max()), name
    program.close()
    for arena in list(store.allocations):
        store.free(arena)
