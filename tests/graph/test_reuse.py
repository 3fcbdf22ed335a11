"""Assignments that cost nothing, memory that is taken over, states that are read and written in one program."""
import numpy as np
from hypothesis import given, settings

from hierarchos.graph import functions as F
from hierarchos.graph.autodiff import checkpoint, gradients
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.op import tracing
from hierarchos.graph.plan import plan_program
from hierarchos.graph.program import compile_program
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Graph, Spec
from hierarchos.kernels.launch import Profile
from tests.graph.test_fusion import STEPS, random_graph, random_values

CPU = Profile()


def launched(graph, layout=None):
    return [type(op).__name__ for op in plan_program(graph, CPU, layout).placement.ops.values()]


def test_a_result_is_computed_in_the_state_it_is_assigned_to():
    with tracing(Graph()) as graph:
        F.assign(F.state("s", (3, 4)), F.input("x", (3, 4)) * 2.0)
    assert launched(graph) == ["Fused"]


def test_accumulating_onto_a_state_happens_in_place():
    with tracing(Graph()) as graph:
        s, x = F.state("s", (3, 4)), F.input("x", (3, 4))
        F.assign(s, s + F.exp(x))
    plan = plan_program(graph, CPU)
    assert len(plan.placement.ops) == 1 and plan.activations == 0


def test_a_product_is_accumulated_onto_a_state_in_place():
    with tracing(Graph()) as graph:
        s = F.state("s", (3, 3))
        F.assign(s, s + F.matmul(F.input("a", (3, 5)), F.input("b", (5, 3))))
    (op,) = plan_program(graph, CPU).placement.ops.values()
    assert op.accumulate


def test_tied_embedding_gradients_are_added_in_place():
    with tracing(Graph()) as graph:
        table, ids = F.state("table", (6, 4)), F.input("ids", (5,), "i32")
        h = F.embedding(ids, table) * 2.0
        loss, _ = F.lm_head_loss(h, table, ids, F.full((5,), 0.2))
        F.assign(F.state("gradient", (6, 4)), gradients(loss, [table])[0])
    assert "Assign" not in launched(graph) and launched(graph)[-1] == "EmbeddingGradient"


def test_an_assignment_stays_where_the_old_value_is_still_read():
    with tracing(Graph()) as graph:
        s, x = F.state("s", (4,)), F.input("x", (4,))
        new = F.concat([x[:2], x[:2] * 2.0], 0)
        graph.outputs["old"] = F.concat([s, s], 0)
        F.assign(s, new)
    assert launched(graph).count("Assign") == 1


def test_an_assignment_stays_where_a_whole_arena_is_read_before_it():
    layout = StoreLayout()
    layout.allocate("arena", {"s": Spec((64,)), "t": Spec((64,))})
    with tracing(Graph()) as graph:
        new = F.exp(F.input("x", (64,)))
        graph.outputs["old"] = F.concat([F.state("arena", (128,))] * 2, 0)
        F.assign(F.state("s", (64,)), new)
    assert "Assign" in launched(graph, layout)


def test_elementwise_results_take_over_dying_inputs():
    with tracing(Graph()) as graph:
        x = F.concat([F.input("x", (256,))] * 4, 0)
        graph.outputs["y"] = F.exp(x)
    assert plan_program(graph, CPU).activations == 4096


def run_on(device, graph, feeds, states):
    store = StateStore(device)
    store.allocate("states", {name: Spec(array.shape) for name, array in states.items()})
    for name, array in states.items():
        store.write(name, array)
    program = compile_program(graph, device, store)
    outputs = program.run({name: feeds[name] for name in program.plan.declared})
    after = {name: store.read(name) for name in states}
    program.close()
    store.free("states")
    return outputs, after


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_random_chains_with_assignments_on_the_device(device, steps):
    graph, (feeds, states) = random_graph([s for s in steps if s[0] != "sum"]), random_values()
    with np.errstate(all="ignore"):
        truth = evaluate(graph, feeds, {k: v.copy() for k, v in states.items()}, "float64")
    single = {k: v.astype("float32") for k, v in feeds.items()}
    results = run_on(device, graph, single, {k: v.astype("float32") for k, v in states.items()})
    for found, expected in zip(results, truth, strict=True):
        for name, array in expected.items():
            if np.isfinite(array).all() and np.abs(array).max() < 1e6:
                np.testing.assert_allclose(found[name], array, rtol=2e-4, atol=2e-4 * max(1, np.abs(array).max()), err_msg=name)


ROWS, WIDTH, INNER, LAYERS = 96, 16, 64, 6


def mlp(h, wide, narrow):
    return h + F.linear(F.gelu(F.linear(h, wide)), narrow)


def blocks(recompute: bool):
    with tracing(Graph()) as graph:
        h = F.input("x", (ROWS, WIDTH))
        weights = []
        for i in range(LAYERS):
            weights += F.state(f"wide{i}", (INNER, WIDTH)), F.state(f"narrow{i}", (WIDTH, INNER))
            if recompute:
                with checkpoint(f"layer {i}"):
                    h = mlp(h, *weights[-2:])
            else:
                h = mlp(h, *weights[-2:])
        for i, g in enumerate(gradients([h], weights)):
            graph.outputs[f"d{i}"] = g
    return graph


def test_recomputation_gives_the_same_bits_with_less_memory(device):
    random = np.random.default_rng(0)
    feeds = {"x": random.normal(size=(ROWS, WIDTH)).astype("float32")}
    shapes = {f"wide{i}": (INNER, WIDTH) for i in range(LAYERS)} | {f"narrow{i}": (WIDTH, INNER) for i in range(LAYERS)}
    states = {name: random.normal(size=shape).astype("float32") * 0.1 for name, shape in shapes.items()}
    plain, again = (run_on(device, blocks(recompute), feeds, states)[0] for recompute in (False, True))
    assert all(plain[name].tobytes() == again[name].tobytes() for name in plain)
    layout = StoreLayout()
    layout.allocate("states", {name: Spec(array.shape) for name, array in states.items()})
    kept, recomputed = (plan_program(blocks(recompute), CPU, layout).activations for recompute in (False, True))
    assert recomputed < 0.6 * kept
