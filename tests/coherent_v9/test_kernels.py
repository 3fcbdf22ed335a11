"""Kernels of the recurrent step against their NumPy twins in float64."""

from __future__ import annotations

import numpy as np
import pytest

from hierarchos.graph.ops.memory_read import MemoryRead, MemoryReadGradient
from hierarchos.graph.ops.norm_mix import NormMix, NormMixGradient
from hierarchos.graph.ops.wkv import Wkv, WkvGradient
from tests.support import run_op


def close(device, op, arrays, tolerance):
    """The device agrees with float64, relative to each output's largest value."""
    found = run_op(device, op, *arrays)
    wanted = op.reference([a.astype("f8") if a.dtype.kind == "f" else a for a in arrays])
    for ours, truth in zip(found, wanted, strict=True):
        assert np.abs(ours - truth).max() <= tolerance * max(1.0, np.abs(truth).max())


def arrays(seed: int, *shapes) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype("f4") for shape in shapes]


def rows(array: np.ndarray, batch: int) -> np.ndarray:
    """[n,w] as [n,batch,w] without a copy, as the graph hands it over."""
    return np.broadcast_to(array[:, None], (array.shape[0], batch, array.shape[1]))


@pytest.mark.parametrize(("batch", "width", "head"), [(2, 16, 8), (1, 12, 12), (3, 128, 64), (2, 24, 1)])
@pytest.mark.parametrize("bound", [50.0, 0.7])
def test_matrix_state(device, batch, width, head, bound):
    rkv, wa, g, vector, state, dy, dstate = arrays(
        head, (3, batch, width), (2, batch, width), (batch, width), (7, width), (batch, width, head), (batch, width), (batch, width, head)
    )
    given = [rkv, wa, g, rows(vector, batch), state]
    close(device, Wkv(bound), given, 3e-6)
    close(device, WkvGradient(bound), [*given, dy, dstate], 2e-5 if head == 1 else 5e-6)


@pytest.mark.parametrize(("parts", "mixtures"), [((3, 2, 1), 6), ((1,), 1)])
@pytest.mark.parametrize(("batch", "width"), [(2, 16), (1, 448), (3, 33)])
def test_norm_and_mixture(device, parts, mixtures, batch, width):
    x, affine, previous, mix, dkept = arrays(width, (batch, width), (2, width), (batch, width), (mixtures, width), (batch, width))
    given = [x, rows(affine, batch), previous, rows(mix, batch)]
    close(device, NormMix(parts, 1.5), given, 1e-6)
    slopes = arrays(1, *[(count, batch, width) if count > 1 else (batch, width) for count in parts])
    close(device, NormMixGradient(parts, 1.5), [*given, dkept, *slopes], 2e-6)


@pytest.mark.parametrize("slots", [5, 300])
@pytest.mark.parametrize("own", [False, True])
def test_retrieval_takes_the_best_finite_scores(device, slots, own):
    scores, values, fast = arrays(slots, (2, slots), (slots, 7), (2, slots, 7) if own else (slots, 7))
    scores[0, :3], scores[1, 1:] = (np.nan, np.inf, -np.inf), np.nan
    scores[0, 4] = scores[0, 3]  # a tie: the lower slot first
    for count in (1, 4):
        index, value = run_op(device, MemoryRead(count), scores, values, fast)
        wanted = MemoryRead(count).reference([scores, values, fast])
        assert (index == wanted[0]).all() and np.array_equal(value, wanted[1].astype("f4"))
    assert (index[1, 1:] == -1).all() and (value[1, 1:] == 0).all()


def test_retrieval_of_every_slot(device):
    scores, values = arrays(3, (1, 40), (40, 3))
    index = run_op(device, MemoryRead(40), scores, values, np.zeros_like(values))[0]
    assert (index[0] == np.argsort(-scores[0], kind="stable")).all()


def test_straight_through_gradient(device):
    value, slope = arrays(4, (2, 3, 5), (2, 3, 5))
    index = np.array([[4, 0, 2], [-1, 6, -1]], np.int32)
    close(device, MemoryReadGradient(9, 0.5), [index, value, slope], 1e-6)
