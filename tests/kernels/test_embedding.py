"""Row lookup and its gradient against their NumPy twins, for ids that repeat, are far apart, or are none of the table's."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchos.graph.ops.embedding import Embedding, EmbeddingGradient
from hierarchos.kernels.launch import Profile
from tests.support import run_op

GPU = Profile("gpu", subgroup=8, compute_units=4)
SIZE = st.sampled_from([1, 2, 7, 31, 33, 257])


def example(rows, vocabulary, width, seed):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, vocabulary, rows).astype(np.int32)
    return rng, ids, rng.standard_normal((rows, width)).astype(np.float32)


@pytest.mark.parametrize("profile", [None, GPU], ids=["device", "gpu"])
@settings(max_examples=15, deadline=None)
@given(rows=SIZE, vocabulary=SIZE, width=SIZE, seed=st.integers(0, 99))
def test_lookup(device, profile, rows, vocabulary, width, seed):
    rng, ids, _ = example(rows, vocabulary, width, seed)
    table = rng.standard_normal((vocabulary, width)).astype(np.float32)
    (found,) = run_op(device, Embedding(), ids, table, profile=profile)
    np.testing.assert_array_equal(found, table[ids])


@pytest.mark.parametrize("profile", [None, GPU], ids=["device", "gpu"])
@pytest.mark.parametrize("base", [False, True])
@settings(max_examples=15, deadline=None)
@given(rows=SIZE, vocabulary=SIZE, width=SIZE, seed=st.integers(0, 99))
def test_gradient(device, profile, base, rows, vocabulary, width, seed):
    rng, ids, gradient = example(rows, vocabulary, width, seed)
    op = EmbeddingGradient(vocabulary, base)
    inputs = [gradient, ids] + [rng.standard_normal((vocabulary, width)).astype(np.float32)] * base
    (found,) = run_op(device, op, *(a.copy() for a in inputs), profile=profile)
    (expected,) = op.reference([a.astype(np.float64) if a.dtype == np.float32 else a for a in inputs])
    (magnitude,) = op.reference([np.abs(a).astype(np.float64) if a.dtype == np.float32 else a for a in inputs])
    assert (np.abs(found - expected) <= rows * 6e-8 * magnitude + 1e-30).all()       # a sum of up to `rows` terms, one rounding each


def test_ids_outside_the_table_read_nan_and_write_nothing(device):
    ids, table = np.array([0, -1, 5, 2**31 - 1, 1], np.int32), np.ones((3, 7), np.float32)
    (found,) = run_op(device, Embedding(), ids, table)
    assert np.isnan(found[1:4]).all() and (found[[0, 4]] == 1).all()
    (gradient,) = run_op(device, EmbeddingGradient(3), np.ones((5, 7), np.float32), ids)
    np.testing.assert_array_equal(gradient, np.array([[1] * 7, [1] * 7, [0] * 7]))


def test_the_gradient_is_the_same_bits_every_time(device):
    _, ids, gradient = example(257, 3, 33, 1)
    first, second = (run_op(device, EmbeddingGradient(3), gradient, ids)[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()
