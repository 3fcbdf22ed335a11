"""Fusion changes no value, and does fuse."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchos.graph import functions as F
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.merge import elementwise
from hierarchos.graph.op import tracing
from hierarchos.graph.ops.leaf import Assign, Leaf, State
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.passes import optimise
from hierarchos.graph.tensor import Graph
from hierarchos.kernels.elementwise import MAX_OPERANDS
from tests.graph.cases import CASES, feeds_of, traced


def kernels(graph):
    return [node for node in optimise(graph).nodes if not isinstance(node.op, Leaf)]


def assert_same(graph, feeds, states=None, dtype="float64"):
    plain = evaluate(graph, feeds, {k: v.copy() for k, v in (states or {}).items()}, dtype)
    fused = evaluate(optimise(graph), feeds, {k: v.copy() for k, v in (states or {}).items()}, dtype)
    for before, after in zip(plain, fused, strict=True):
        for name, array in before.items():
            np.testing.assert_allclose(after[name], array, rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_passes_change_no_value(case):
    assert_same(traced(*CASES[case], True), feeds_of(case, "float64"))


SHAPES = [(3, 4), (1, 4), (3, 1), (), (3, 4)]
STEPS = st.lists(st.tuples(st.sampled_from(["add", "mul", "sub", "exp", "silu", "where", "assign", "scale", "sum", "one"]),
                           st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=25)


def random_graph(steps):
    with tracing(Graph()) as graph:
        tensors = [F.input(f"x{i}", shape) for i, shape in enumerate(SHAPES)] + [F.state("s", (3, 4)), F.full((3, 4), 0.5)]
        for name, first, second in steps:
            a, b = tensors[first % len(tensors)], tensors[second % len(tensors)]
            if name == "assign":
                new = F.assign(F.state("s", (3, 4)), F.add(F.add(a, b), F.full((3, 4), 0.0)))
                tensors = [new if isinstance(t.node.op, State | Assign) else t for t in tensors] + [new]
            elif name == "where":
                tensors.append(F.where(F.gt(a, b), a, b * 0.5))
            elif name in ("exp", "silu"):
                tensors.append(getattr(F, name)(a * 0.1))
            elif name in ("scale", "one"):
                tensors.append(a * (1.0 if name == "one" else 0.3))
            else:
                tensors.append(F.sum(a * b, 0, True) if name == "sum" and a.rank else getattr(F, "add" if name == "sum" else name)(a, b))
        graph.outputs = {"last": tensors[-1], "other": tensors[len(tensors) // 2], "state": F.state("s", (3, 4)) * 1.0}
    return graph


def random_values():
    random = np.random.default_rng(1)
    feeds = {f"x{i}": random.uniform(-1, 1, shape) for i, shape in enumerate(SHAPES)}
    return feeds, {"s": random.uniform(-1, 1, (3, 4))}


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_random_chains_with_assignments_keep_their_values(steps):
    with np.errstate(all="ignore"):
        assert_same(random_graph(steps), *random_values())


def test_a_chain_is_one_kernel():
    with tracing(Graph()) as graph:
        x, b = F.input("x", (3, 4)), F.input("b", (4,))
        graph.outputs["y"] = F.gelu(x + b) * 2.0 + F.full((3, 4), 1.0) * x
    (kernel,) = kernels(graph)
    assert len(kernel.inputs) == 2 and elementwise(kernel)


def test_a_gated_product_is_one_kernel_forward_and_one_backward():
    with tracing(Graph()) as graph:
        gate, up = F.input("gate", (3, 4)), F.input("up", (3, 4))
        graph.outputs["y"] = y = F.silu(gate) * up
        turned = F.concat([y[1:], y[:1]], 0)
        graph.outputs["dgate"], graph.outputs["dup"] = F.gradients(y, [gate, up], [turned])
    found = [kernel for kernel in kernels(graph) if elementwise(kernel)]
    assert [len(kernel.outputs) for kernel in found] == [1, 2]


def test_a_kernel_takes_no_more_operands_than_fit():
    with tracing(Graph()) as graph:
        total = F.input("x0", (4,))
        for i in range(1, 40):
            total = total + F.input(f"x{i}", (4,))
        graph.outputs["y"] = total
    found = kernels(graph)
    assert 1 < len(found) <= 5 and all(len(k.inputs) + len(k.outputs) <= MAX_OPERANDS for k in found)


def test_a_residual_goes_into_the_product():
    with tracing(Graph()) as graph:
        x, w = F.input("x", (3, 4)), F.input("w", (4, 4))
        graph.outputs["y"] = x + F.linear(F.linear(x, w) + F.linear(x * 2.0, w), w)
    assert sum(isinstance(k.op, MatMul) for k in kernels(graph)) == 3
    assert sum(elementwise(k) for k in kernels(graph)) == 1


def test_multiplying_by_one_costs_nothing():
    with tracing(Graph()) as graph:
        graph.outputs["y"] = F.input("x", (3, 4)) * F.full((3, 4), 1.0)
    assert kernels(graph) == []


def test_an_activation_goes_into_the_product():
    with tracing(Graph()) as graph:
        x, w = F.input("x", (3, 4)), F.input("w", (4, 4))
        graph.outputs["y"] = F.linear(F.gelu(F.linear(x, w)), w)
    assert [kernel.op.activation for kernel in kernels(graph)] == ["gelu", "none"]


def test_reading_a_state_through_an_old_tensor_is_refused():
    with tracing(Graph()) as graph:
        s = F.state("s", (4,))
        F.assign(s, s + 1.0)
        graph.outputs["y"] = s * 2.0
    with pytest.raises(ValueError, match=r"reads the state 's' through a tensor of step 0, but the state was written since"):
        optimise(graph)
