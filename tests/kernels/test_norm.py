"""LayerNorm and RMSNorm, forward and backward, on both device classes."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hierarchos.graph.ops.norm import Norm, NormInputGradient, NormWeightGradient
from hierarchos.graph.profile import profile_of
from tests.support import run_op

RNG = np.random.default_rng(11)
SHAPES = [(1, 1), (3, 7), (5, 31), (2, 3, 33), (70, 257), (300, 64)]
KINDS = [("layer", True, True), ("layer", True, False), ("layer", False, False), ("rms", True, False), ("rms", False, False)]


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def check(device, op, *arrays: np.ndarray, relative: float) -> None:
    """Largest error of each output against float64, relative to the output's largest value."""
    truth = op.reference([a.astype(np.float64) for a in arrays])
    for profile in (profile_of(device), replace(profile_of(device), device_class="gpu", compute_units=8)):
        for result, expected in zip(run_op(device, op, *arrays, profile=profile), truth, strict=True):
            assert np.abs(result - expected).max() <= relative * max(1e-3, np.abs(expected).max())


def saved_moments(kind: str, x: np.ndarray) -> list[np.ndarray]:
    return [m.astype(np.float32) for m in Norm(kind, 1e-5, False).reference([x.astype(np.float64)])[1:]]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "weight", "bias"), KINDS)
def test_forward(device, shape, kind, weight, bias):
    arrays = [normal(*shape) + np.float32(0.5), *[normal(shape[-1]) for _ in range(weight + bias)]]
    check(device, Norm(kind, 1e-5, weight, bias, 1.0 if kind == "rms" else 0.0), *arrays, relative=5e-7)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_forward_of_a_row_with_a_large_mean(device, kind):
    """The variance is that of the deviations: 1000 +- 1 keeps the digits that float32 has."""
    check(device, Norm(kind, 1e-5, False), normal(3, 257) + np.float32(1000), relative=1e-4)


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize(("kind", "weight"), [("layer", True), ("layer", False), ("rms", True), ("rms", False)])
def test_input_gradient(device, shape, kind, weight):
    x = normal(*shape)
    arrays = [normal(*shape), x, *saved_moments(kind, x), *[normal(shape[-1])] * weight]
    check(device, NormInputGradient(kind, weight, 1.0), *arrays, relative=1e-6)
    check(device, NormInputGradient(kind, weight, 1.0, base=True), *arrays, normal(*shape), relative=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "weight", "bias"), [*KINDS[:2], ("layer", False, True), ("rms", True, False)])
def test_weight_gradient(device, shape, kind, weight, bias):
    x = normal(*shape)
    check(device, NormWeightGradient(kind, weight, bias), normal(*shape), x, *saved_moments(kind, x), relative=1e-6)


@pytest.mark.parametrize(("kind", "weight", "bias"), KINDS)
def test_derivative_agrees_with_central_differences(kind, weight, bias):
    from hierarchos.graph.autodiff import gradients
    from hierarchos.graph.evaluate import evaluate
    from hierarchos.graph.functions import input, layer_norm, rms_norm, sum
    from hierarchos.graph.op import tracing
    from hierarchos.graph.tensor import Graph
    arrays = {n: RNG.normal(size=s) for n, s in (("x", (3, 5)), ("weight", (5,)), ("bias", (5,)), ("probe", (3, 5)))}
    with tracing(Graph()) as graph:
        leaves = {n: input(n, a.shape, "f32") for n, a in arrays.items()}
        used = [leaves["x"], *[leaves["weight"]] * weight, *[leaves["bias"]] * bias]
        extra = {n: leaves[n] for n, w in (("weight", weight), ("bias", bias)) if w}
        y = layer_norm(leaves["x"], **extra) if kind == "layer" else rms_norm(leaves["x"], **extra, weight_offset=1.0)
        graph.outputs["loss"] = loss = sum(y * leaves["probe"])
        names = ["x", *extra]
        for name, gradient in zip(names, gradients(loss, used), strict=True):
            graph.outputs[name] = gradient
    results = evaluate(graph, arrays, dtype="float64")[0]
    for name in names:
        for at in np.ndindex(arrays[name].shape):
            sides = []
            for step in (1e-5, -1e-5):
                moved = arrays[name].copy()
                moved[at] += step
                sides.append(evaluate(graph, arrays | {name: moved}, dtype="float64")[0]["loss"])
            assert abs((sides[0] - sides[1]) / 2e-5 - results[name][at]) < 1e-7


@pytest.mark.parametrize(("shape", "op", "output", "most"), [
    ((200, 72), Norm("layer", 1e-5, True, True), 0, 0.95), ((300, 257), NormWeightGradient("layer", True, True), 0, 0.8),
    ((300, 257), NormWeightGradient("layer", True, True), 1, 0.8)], ids=["y", "weight gradient", "bias gradient"])
def test_gpus_round_less(device, shape, op, output, most):
    """Root mean square error of the kernels for GPUs beside those for CPU drivers: 0.9, 0.6, 0.6."""
    if isinstance(op, Norm) and device.info.kind == "software":
        pytest.skip("what is lost shows in an fma that is fused")
    x = normal(*shape) + np.float32(0.5)
    arrays = [x, normal(shape[-1]), normal(shape[-1])] if isinstance(op, Norm) else [normal(*shape), x, *saved_moments("layer", x)]
    truth = op.reference([a.astype(np.float64) for a in arrays])[output]
    cpu, gpu = (np.square(run_op(device, op, *arrays, profile=replace(profile_of(device), device_class=kind))[output] - truth).mean()
                for kind in ("cpu", "gpu"))
    assert gpu <= most**2 * cpu
