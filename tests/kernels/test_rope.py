"""Rotation of channel pairs against its NumPy twin: odd sizes, partial rotation, strided inputs, both layouts, there and back."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchos.graph.ops.rope import Rope
from hierarchos.kernels.launch import Profile
from tests.support import run_op

GPU = Profile("gpu", subgroup=8, compute_units=4)


def example(batch, length, heads, half, rest, seed, fused=False):
    rng = np.random.default_rng(seed)
    width = 2 * half + rest
    x = rng.standard_normal((batch, length, heads, width * (3 if fused else 1))).astype(np.float32)
    angles = rng.standard_normal((40, half))
    positions = rng.integers(0, 40, (batch, length)).astype(np.int32)
    return x[..., width:2 * width] if fused else x, np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32), positions


@pytest.mark.parametrize("profile", [None, GPU], ids=["device", "gpu"])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@settings(max_examples=20, deadline=None)
@given(batch=st.integers(1, 3), length=st.sampled_from([1, 7, 31, 33]), heads=st.sampled_from([1, 3, 8]),
       half=st.sampled_from([1, 4, 7, 16, 33]),
       rest=st.sampled_from([0, 1, 6]), inverse=st.booleans(), fused=st.booleans(), seed=st.integers(0, 99))
def test_rotation(device, profile, layout, batch, length, heads, half, rest, inverse, fused, seed):
    inputs = example(batch, length, heads, half, rest, seed, fused)
    op = Rope(layout, inverse)
    (found,) = run_op(device, op, *inputs, profile=profile)
    (expected,) = op.reference([a.astype(np.float64) if a.dtype == np.float32 else a for a in inputs])
    np.testing.assert_allclose(found, expected, atol=2 * np.spacing(np.float32(4)), rtol=0)     # two roundings of values below 8


def test_rotating_there_and_back_gives_the_input(device):
    x, cos, sin, positions = example(2, 33, 3, 16, 6, 1)
    (there,) = run_op(device, Rope("half"), x, cos, sin, positions)
    (back,) = run_op(device, Rope("half", True), there, cos, sin, positions)
    np.testing.assert_allclose(back, x, atol=2e-6)
