"""The functions that all kernels are made of: their largest error on the device, in units in the last place of the float64 truth."""
from __future__ import annotations

import math

import numpy as np
import pytest

from hierarchos.kernels import spirv
from hierarchos.kernels.expression import PRIMITIVES, Expression, Instruction
from hierarchos.kernels.half import HALVES

RNG = np.random.default_rng(7)
TINY = 1.1754943508222875e-38                       # below it results may be flushed to zero

# name: (smallest, largest argument, bound in ulp, bound by value: error / max(|truth|, this) instead where cancellation is inherent)
RANGES = {
    "exp": (-87.0, 88.7, 1.5, 0.0),
    "tanh": (-12.0, 12.0, 2.0, 0.0),
    "erf": (-5.0, 5.0, 1.5, 0.0),
    "sin": (-3000.0, 3000.0, 2.5, 0.0),
    "cos": (-3000.0, 3000.0, 2.5, 0.0),
    "sigmoid": (-87.0, 87.0, 3.0, 0.0),
    "silu": (-80.0, 80.0, 4.0, 0.0),
    "gelu": (-10.0, 10.0, 2.0, 1.0),
    "gelu_tanh": (-10.0, 10.0, 3.0, 1.0),
}
POSITIVE = {"log": 1.5, "sqrt": 0.75, "rsqrt": 1.6}
UNDERFLOW = 1e-29                                    # below it remainders underflow and the device's own sqrt and division show: 2.5 ulp


def on_device(device, name: str, *arrays: np.ndarray) -> np.ndarray:
    """One function over flat arrays."""
    from hierarchos.graph.ops.pointwise import Fused
    from tests.support import run_op
    n = len(arrays)
    dag = Expression(("f32",) * n, (Instruction(name, tuple(range(n))),), (n,))
    return run_op(device, Fused(dag), *arrays)[0]


def ulps(result: np.ndarray, truth: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """Error in units in the last place of the truth (of `floor` where the truth is smaller)."""
    size = np.maximum(np.maximum(np.abs(truth), floor), TINY).astype(np.float32)
    return np.abs(result.astype(np.float64) - truth) / np.spacing(size).astype(np.float64)


def samples(low: float, high: float) -> np.ndarray:
    """Dense over the range and over all magnitudes inside it."""
    spread = np.geomspace(1e-30, max(abs(low), abs(high)), 40_000)
    both = np.concatenate([np.linspace(low, high, 100_001), spread, -spread, RNG.normal(size=20_000)])
    return both[(both >= low) & (both <= high)].astype(np.float32)


@pytest.mark.parametrize("name", RANGES)
def test_error_over_the_useful_range(device, name):
    low, high, bound, floor = RANGES[name]
    x = samples(low, high)
    truth = PRIMITIVES[name].reference(x.astype(np.float64))
    error = ulps(on_device(device, name, x), truth, floor)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, f"{name}({x[worst]!r}) is off by {error[worst]:.3f} ulp"


@pytest.mark.parametrize("name", POSITIVE)
def test_error_over_all_magnitudes(device, name):
    x = np.concatenate([np.geomspace(1.2e-38, 3.4e38, 150_000), np.linspace(0.5, 2.0, 100_000)]).astype(np.float32)
    error = ulps(on_device(device, name, x), PRIMITIVES[name].reference(x.astype(np.float64)))
    error[x < UNDERFLOW] *= POSITIVE[name] / 3
    worst = int(np.argmax(error))
    assert error[worst] <= POSITIVE[name], f"{name}({x[worst]!r}) is off by {error[worst]:.3f} ulp"


def test_division_is_rounded_correctly(device):
    a = (RNG.normal(size=200_000) * 10.0 ** RNG.uniform(-15, 15, 200_000)).astype(np.float32)
    b = (RNG.normal(size=200_000) * 10.0 ** RNG.uniform(-15, 15, 200_000)).astype(np.float32)
    assert ulps(on_device(device, "div", a, b), a.astype(np.float64) / b).max() <= 0.501


def test_power_error_grows_with_the_logarithm(device):
    x = np.geomspace(1e-6, 1e6, 50_000).astype(np.float32)
    y = RNG.uniform(-4, 4, 50_000).astype(np.float32)
    truth = np.power(x.astype(np.float64), y)
    error = np.abs(on_device(device, "power", x, y) - truth) / truth
    assert (error <= (2 + np.abs(y * np.log(x))) * 2.0**-23).all()


SPECIAL = {
    "exp": {0.0: 1.0, math.inf: math.inf, -math.inf: 0.0, 100.0: math.inf, -200.0: 0.0, 1e-40: 1.0},
    "log": {1.0: 0.0, 0.0: -math.inf, math.inf: math.inf, -1.0: math.nan},
    "tanh": {0.0: 0.0, math.inf: 1.0, -math.inf: -1.0, 50.0: 1.0},
    "erf": {0.0: 0.0, math.inf: 1.0, -math.inf: -1.0, 4.5: 1.0},
    "sqrt": {0.0: 0.0, 1.0: 1.0, 4.0: 2.0, math.inf: math.inf, -1.0: math.nan},
    "rsqrt": {1.0: 1.0, 4.0: 0.5, math.inf: 0.0, 0.0: math.inf},
    "sin": {0.0: 0.0, math.inf: math.nan},
    "cos": {0.0: 1.0, math.inf: math.nan},
    "sigmoid": {0.0: 0.5, math.inf: 1.0, -math.inf: 0.0},
    "silu": {0.0: 0.0, math.inf: math.inf},
    "gelu": {0.0: 0.0, 20.0: 20.0, -20.0: 0.0},
    "gelu_tanh": {0.0: 0.0, 20.0: 20.0, -20.0: 0.0},
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(device, name):
    x = np.array([*SPECIAL[name], math.nan], np.float32)
    np.testing.assert_array_equal(on_device(device, name, x), np.array([*SPECIAL[name].values(), math.nan], np.float32))


def test_library_holds_every_function_that_expressions_call():
    conversions = {f"{way}_{half}" for way in ("from", "to") for half in HALVES}
    assert set(spirv.FUNCTIONS) == {n for n, p in PRIMITIVES.items() if p.kind == "float"} | {"dropout"} | conversions
