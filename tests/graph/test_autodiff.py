"""Every derivative against central differences in float64, through the NumPy twins."""
import numpy as np
import pytest

from hierarchos.graph import functions as F
from hierarchos.graph.autodiff import checkpoint, gradients
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph
from tests.graph.cases import CASES, feeds_of, traced

STEP = 1e-5                                         # cube root of float64's precision: error about 1e-10 of the second derivative


def central_differences(graph, feeds, name):
    slope = np.zeros_like(feeds[name])
    for index in np.ndindex(slope.shape):
        def loss(step, index=index):
            moved = feeds[name].copy()
            moved[index] += step
            return evaluate(graph, feeds | {name: moved}, dtype="float64")[0]["loss"]
        slope[index] = (loss(STEP) - loss(-STEP)) / (2 * STEP)
    return slope


@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_central_differences(case):
    function, shapes = CASES[case]
    feeds = feeds_of(case, "float64")
    outputs, _ = evaluate(traced(function, shapes, True), feeds, dtype="float64")
    plain = traced(function, shapes, False)
    for i in range(len(shapes)):
        truth = central_differences(plain, feeds, f"x{i}")
        np.testing.assert_allclose(outputs[f"d{i}"], truth, rtol=1e-6, atol=1e-8, err_msg=f"{case}: input {i}")


def test_no_gradient_is_none_and_unused_paths_are_left_alone():
    with tracing(Graph()):
        a, b = F.input("a", (3,)), F.input("b", (3,))
        assert gradients(F.sum(a * a), [b, a])[0] is None


def test_states_of_one_name_share_a_gradient():
    with tracing(Graph()) as graph:
        first, second = F.state("w", (3,)), F.state("w", (3,))
        graph.outputs["g"] = gradients(F.sum(first * second), [first])[0]
    assert evaluate(graph, {}, {"w": np.array([1.0, 2, 3])}, "float64")[0]["g"].tolist() == [2, 4, 6]


def block(x, w):
    return x + F.tanh(x * w) * F.sigmoid(x)


def test_recomputed_regions_give_the_same_gradients_from_cloned_nodes():
    def build(recompute):
        with tracing(Graph()) as graph:
            x, w = F.input("x", (4,)), F.state("w", (4,))
            h = x
            for _ in range(2):
                if recompute:
                    with checkpoint("layer"):
                        h = block(h, w)
                else:
                    h = block(h, w)
            graph.outputs["g"] = gradients(F.sum(h), [w])[0]
        return graph
    feeds, states = {"x": np.linspace(-1, 1, 4, dtype="float32")}, {"w": np.ones(4, "float32")}
    plain, again = build(False), build(True)
    np.testing.assert_array_equal(evaluate(plain, feeds, states)[0]["g"], evaluate(again, feeds, states)[0]["g"])
    regions = {node.region for node in again.nodes if node.region}
    assert regions == {"layer", "layer (2)", "layer recomputed", "layer (2) recomputed"}
