"""Autocast: what a graph in half precision rounds, keeps and leaves alone."""
from collections import Counter

import numpy as np
import pytest

from hierarchos.graph import functions as F
from hierarchos.graph.autocast import autocast
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import tracing
from hierarchos.graph.ops.half import HalfAttention, HalfMatMul
from hierarchos.graph.ops.leaf import State
from hierarchos.graph.ops.pointwise import Pointwise
from hierarchos.graph.passes import optimise
from hierarchos.graph.program import compile_program
from hierarchos.graph.tensor import Graph
from hierarchos.models.registry import resolve
from hierarchos.training.graphs import GRADIENTS, gradient_graph
from hierarchos.training.precision import Precision
from hierarchos.training.state import TrainingState
from tests.tiny import TINY, Optimizer, RandomBatches

CONFIG = TINY | {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
EPS = {"bf16": 2.0**-8, "fp16": 2.0**-11}


def traced(compute: str, recompute: bool = False) -> Graph:
    return gradient_graph(resolve(CONFIG), 2, 11, False, recompute, False, Precision(compute))


def feeds() -> dict:
    batch = RandomBatches(2, 11).batch(0)
    return {name: batch[name] for name in ("ids", "positions", "segments", "targets")} | {"token_weights": batch["token_weights"] / 16}


def kinds(graph: Graph) -> Counter:
    return Counter(type(node.op).__name__ for node in graph.nodes)


def test_fp32_graphs_are_left_alone():
    graph = traced("fp32")
    assert autocast(graph, "fp32") is graph
    assert not any(t.dtype in ("f16", "bf16") for node in optimise(traced("fp32")).nodes for t in node.outputs)


def test_products_and_attention_are_rounded_and_nothing_else():
    plain, half = kinds(optimise(traced("fp32"))), kinds(autocast(optimise_before(traced("bf16")), "bf16"))
    assert "MatMul" not in half and half["HalfMatMul"] == kinds(optimise_before(traced("fp32")))["MatMul"]
    assert half["HalfAttention"] == plain["Attention"] and half["HalfAttentionBackward"] == plain["AttentionBackward"]
    assert half["HalfLmHeadLoss"] == 1 and half["Norm"] == plain["Norm"]


def optimise_before(graph: Graph) -> Graph:
    """The graph as the pass finds it, roughly: without dead and equal nodes."""
    from hierarchos.graph.passes import merge_equal, remove_dead
    return merge_equal(remove_dead(graph))


def test_a_weight_is_rounded_once_in_a_step():
    graph = autocast(optimise_before(traced("bf16")), "bf16")
    casts = Counter(node.inputs[0].node.op.name for node in graph.nodes
                    if isinstance(node.op, Pointwise) and node.op.primitive == "cast" and isinstance(node.inputs[0].node.op, State))
    assert casts and set(casts.values()) == {1}


def test_sums_with_the_residual_and_gradients_of_parameters_stay_fp32():
    graph = optimise(traced("bf16"))
    products = [node for node in graph.nodes if isinstance(node.op, HalfMatMul)]
    assert all(node.op.result == "f32" for node in products if node.op.has_residual)
    assert all(node.op.result == "f32" for node in products if node.op.transpose_a)
    assert any(node.op.result == "bf16" for node in products)


def test_attention_reads_the_rounded_product_itself():
    graph = optimise(traced("bf16"))
    readers = [node for node in graph.nodes if isinstance(node.op, HalfAttention)]
    assert readers and all(t.dtype == "bf16" for node in readers for t in node.inputs[:3])


@pytest.mark.parametrize("compute", ["bf16", "fp16"])
@pytest.mark.parametrize("recompute", [False, True])
def test_a_step_agrees_with_the_twins_in_float64(device, compute, recompute):
    model = resolve(CONFIG)
    values = model.initial_values(3)
    state = TrainingState(model, device, Optimizer())
    state.load(values)
    graph = traced(compute, recompute)
    if compute == "fp16":                           # without a loss scale, so that the twins need no states of it
        graph = gradient_graph(model, 2, 11, False, recompute, False)
        graph.compute = compute
    got = compile_program(graph, device, state.store).run(feeds())
    zeros = {f"{GRADIENTS}/{spec.name}": np.zeros(spec.shape) for spec in model.parameters}
    twin = gradient_graph(model, 2, 11, False, recompute, False)
    twin = autocast(optimise_before(twin), compute)
    truth, states = evaluate(twin, feeds(), {name: v.astype(np.float64) for name, v in values.items()} | zeros, "float64")
    assert got["loss"] == pytest.approx(float(truth["loss"]), rel=2 * EPS[compute])
    for spec in model.parameters:
        exact = states[f"{GRADIENTS}/{spec.name}"]
        error = np.abs(state.store.read(f"{GRADIENTS}/{spec.name}") - exact).max()
        assert error <= 8 * EPS[compute] * max(np.abs(exact).max(), 1e-6), spec.name


def test_views_of_rounded_tensors_are_not_rounded_again():
    with tracing(Graph(compute="bf16")) as graph:
        x, w = F.input("x", (4, 6, 8)), F.input("w", (5, 8))
        first = F.linear(x, w)
        second = F.linear(F.reshape(x, (24, 8)), w)
        graph.outputs |= {"a": first, "b": second}
    half = autocast(graph, "bf16")
    assert sum(isinstance(node.op, Pointwise) for node in half.nodes) == 2
