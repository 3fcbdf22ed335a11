"""Packed weights: the formats, and the kernel against its NumPy twin."""
from __future__ import annotations

import numpy as np
import pytest

from hierarchos.graph.ops.unpack import Unpack
from hierarchos.kernels.packed import FORMATS, pack, unpacked, words_of
from tests.support import run_op

STEP = {"fp16": 2**-11, "bf16": 2**-8, "int8": 1 / 254, "int4": 1 / 29}       # of the largest value of a block


def values(count: int) -> np.ndarray:
    return (np.random.default_rng(count).standard_normal(count) * 0.05).astype(np.float32)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("count", [1, 32, 33, 1000, 70000])
def test_the_kernel_gives_the_bits_of_its_twin(device, form, count):
    words = pack(values(count), form)
    assert words.dtype == np.uint32 and words.size == words_of(count, form)
    [found] = run_op(device, Unpack(form, (count,)), words)
    assert np.array_equal(found, unpacked(words, form, count))


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_packed_comes_back_to_within_a_step(form):
    x = values(4096)
    largest = np.abs(x.reshape(-1, 32)).max(1, keepdims=True)
    error = np.abs(unpacked(pack(x, form), form, x.size) - x).reshape(-1, 32)
    assert (error <= 2.2 * STEP[form] * largest).all()


@pytest.mark.parametrize("form", ["fp16", "bf16"])
def test_halves_are_rounded_to_nearest(form):
    torch = pytest.importorskip("torch")
    x = values(3200)
    expected = torch.from_numpy(x).to({"fp16": torch.float16, "bf16": torch.bfloat16}[form]).float().numpy()
    assert np.array_equal(unpacked(pack(x, form), form, x.size), expected)


def test_blocks_of_zeros_stay_zero():
    for form in FORMATS:
        assert not unpacked(pack(np.zeros(64, np.float32), form), form, 64).any()
