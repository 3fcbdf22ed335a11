"""Sums and maxima over any axes of any view, on both device classes."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchos.graph.ops.reduce import Reduce
from hierarchos.graph.profile import profile_of
from tests.support import run_op

RNG = np.random.default_rng(5)


def profiles(device):
    return [profile_of(device), replace(profile_of(device), device_class="gpu", compute_units=8)]


def check(device, op: Reduce, x: np.ndarray) -> None:
    """Error at most 4 units in the last place of the sum of magnitudes: far below what sequential addition would give."""
    truth = op.reference([x.astype(np.float64)])[0]
    size = op.reference([np.abs(x).astype(np.float64)])[0]
    for profile in profiles(device):
        result = run_op(device, op, x, profile=profile)[0]
        assert result.shape == truth.shape
        assert (np.abs(result - truth) <= 4 * 2.0**-24 * size).all()


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("size", [1, 7, 31, 33, 257])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_rows_columns_and_all(device, kind, size, axes):
    for rows in (1, 5, 33):
        check(device, Reduce(kind, axes), RNG.normal(size=(rows, size)).astype(np.float32))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_long_reductions_are_split(device, axes):
    x = RNG.normal(size=(3001, 70) if axes == (0,) else (7, 20_001)).astype(np.float32)
    check(device, Reduce("sum", axes), x)
    check(device, Reduce("max", axes), x)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from((1, 2, 3, 5, 17, 33)), min_size=1, max_size=4), st.data())
def test_any_axes_of_any_view(device, shape, data):
    order = data.draw(st.permutations(range(len(shape))))
    x = RNG.normal(size=[shape[a] for a in order]).astype(np.float32).transpose([order.index(a) for a in range(len(shape))])
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
    check(device, Reduce(data.draw(st.sampled_from(("sum", "max"))), axes, data.draw(st.booleans())), x)


def test_broadcast_view(device):
    check(device, Reduce("sum", (0,)), np.broadcast_to(RNG.normal(size=33).astype(np.float32), (40, 33)))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_integers_are_exact(device, dtype):
    x = RNG.integers(0 if dtype is np.uint32 else -100, 100, (33, 70)).astype(dtype)
    for kind in ("sum", "max"):
        for axes in ((0,), (1,)):
            op = Reduce(kind, axes)
            for profile in profiles(device):
                np.testing.assert_array_equal(run_op(device, op, x, profile=profile)[0], op.reference([x])[0])


@pytest.mark.filterwarnings("ignore:invalid value")
def test_nan_and_infinity_survive(device):
    x = RNG.normal(size=(3, 40)).astype(np.float32)
    x[0, 17], x[1, 3], x[2] = np.nan, np.inf, -np.inf
    for kind in ("sum", "max"):
        for axes in ((1,), (0,)):
            op = Reduce(kind, axes)
            for profile in profiles(device):
                found, = run_op(device, op, x, profile=profile)
                np.testing.assert_array_equal(np.isnan(found), np.isnan(op.reference([x])[0]))
                np.testing.assert_array_equal(np.isinf(found), np.isinf(op.reference([x])[0]))


def test_sums_of_gpus_are_compensated(device):
    """Root mean square error 0.48 of that of blocks of 32."""
    x = RNG.normal(size=(300, 64)).astype(np.float32)
    cpu, gpu = (np.square(run_op(device, Reduce("sum", (0,)), x, profile=replace(profile_of(device), device_class=kind))[0]
                          - x.sum(0, dtype=np.float64)).mean() for kind in ("cpu", "gpu"))
    assert gpu <= 0.7**2 * cpu


def test_every_run_gives_the_same_bits(device):
    x = RNG.normal(size=(50_000,)).astype(np.float32)
    assert run_op(device, Reduce("sum", (0,)), x)[0].tobytes() == run_op(device, Reduce("sum", (0,)), x)[0].tobytes()
