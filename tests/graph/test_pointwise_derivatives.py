"""Derivatives of elementwise operations and reductions against central differences in float64."""
from __future__ import annotations

import numpy as np
import pytest

from hierarchos.graph import functions as F
from hierarchos.graph.autodiff import gradients
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import ShapeError, tracing
from hierarchos.graph.tensor import Graph

RNG = np.random.default_rng(17)


def check(function, *arrays: np.ndarray) -> None:
    """gradients() of sum(function(...) * probe) agrees with differences of step 1e-6 for every element."""
    names = [f"x{i}" for i in range(len(arrays))]
    feeds = dict(zip(names, arrays, strict=True))
    with tracing(Graph()) as graph:
        leaves = [F.input(n, a.shape, "f32") for n, a in feeds.items()]
        y = function(*leaves)
        feeds["probe"] = RNG.normal(size=y.shape)
        graph.outputs["loss"] = loss = F.sum(y * F.input("probe", y.shape, "f32"))
        graph.outputs |= dict(zip(names, gradients(loss, leaves), strict=True))
    results = evaluate(graph, feeds, dtype="float64")[0]
    for name in names:
        for at in np.ndindex(feeds[name].shape):
            sides = []
            for step in (1e-6, -1e-6):
                moved = feeds[name].copy()
                moved[at] += step
                sides.append(evaluate(graph, feeds | {name: moved}, dtype="float64")[0]["loss"])
            assert abs((sides[0] - sides[1]) / 2e-6 - results[name][at]) < 1e-6 * max(1, abs(results[name][at]))


UNARY = ["neg", "exp", "tanh", "erf", "sin", "cos", "sigmoid", "silu", "gelu", "gelu_tanh", "relu"]


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    check(getattr(F, name), RNG.normal(size=(2, 3)) * 2)


@pytest.mark.parametrize("name", ["log", "sqrt", "rsqrt"])
def test_unary_on_positive_numbers(name):
    check(getattr(F, name), RNG.uniform(0.3, 3, (2, 3)))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum"])
@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (3,)), ((), (2, 3)), ((1, 3), (2, 1, 1))])
def test_binary_with_broadcasting(name, shapes):
    check(getattr(F, name), *(np.asarray(RNG.uniform(0.5, 2, s) * RNG.choice([-1, 1], s)) for s in shapes))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_binary_with_numbers(name):
    check(lambda x: getattr(F, name)(x, 0.7), RNG.normal(size=3))
    check(lambda x: getattr(F, name)(0.7, x), RNG.uniform(1, 2, 3))


@pytest.mark.parametrize("exponent", [1, 2, 3, 0.5, -0.5, -1, 2.5])
def test_power_of_a_number(exponent):
    check(lambda x: F.power(x, exponent), RNG.uniform(0.5, 2, 4))


def test_power_of_a_tensor():
    check(F.power, RNG.uniform(0.5, 2, (2, 3)), RNG.normal(size=3))
    check(lambda x: F.power(2.0, x), RNG.normal(size=3))


def test_where():
    check(lambda x, y: F.where(F.gt(x, y), x * 2, y * y), RNG.normal(size=(2, 3)), RNG.normal(size=3))
    check(lambda x: F.where(F.gt(x, 0.0), x, -1.0), RNG.normal(size=5))


def test_ties_of_maximum_share_the_gradient():
    with tracing(Graph()) as graph:
        x, y = F.input("x", (2,), "f32"), F.input("y", (2,), "f32")
        graph.outputs["dx"], graph.outputs["dy"] = gradients(F.sum(F.maximum(x, y)), [x, y])
    results = evaluate(graph, {"x": np.array([1.0, 2.0]), "y": np.array([1.0, 0.0])}, dtype="float64")[0]
    np.testing.assert_array_equal(results["dx"], [0.5, 1])
    np.testing.assert_array_equal(results["dy"], [0.5, 0])


@pytest.mark.parametrize("name", ["sum", "mean", "max"])
@pytest.mark.parametrize("axes", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axes, keepdims):
    check(lambda x: getattr(F, name)(x, axes, keepdims) * 2.0, RNG.permutation(24).reshape(2, 3, 4) / 7)


def test_integers_and_comparisons_have_no_gradient():
    with tracing(Graph()):
        x, ids = F.input("x", (3,), "f32"), F.input("ids", (3,), "i32")
        loss = F.sum(x * F.cast(F.add(ids, 1), "f32") * F.where(F.gt(x, 0.0), 1.0, 0.0))
        assert gradients(loss, [ids])[0] is None
        assert gradients(loss, [x])[0] is not None


def test_messages_name_the_operation_and_the_shapes():
    with tracing(Graph()):
        x, y, ids = F.input("x", (2, 3), "f32"), F.input("y", (4,), "f32"), F.input("ids", (3,), "i32")
        with pytest.raises(ShapeError, match=r"mul: shapes \[2, 3\] and \[4\] do not broadcast"):
            F.mul(x, y)
        with pytest.raises(ShapeError, match=r"add needs operands of one dtype, got f32 and i32"):
            F.add(x, ids)
        with pytest.raises(ShapeError, match=r"exp needs f32, got i32"):
            F.exp(ids)
        with pytest.raises(ShapeError, match=r"sum: axes \[5\] of a tensor of rank 2"):
            F.sum(x, 5)
