"""fp32 products on matrix units: the split of operands, the choice of the kernel, and its numbers where a device has such units."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchos.graph.binding import bind
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.profile import profile_of
from hierarchos.kernels import gemm_gpu, gemm_split
from hierarchos.kernels.gemm import matmul_reference
from hierarchos.kernels.gemm_gpu import ProductShape
from hierarchos.kernels.gemm_layout import product_of
from hierarchos.kernels.gemm_split import TILES, SplitTile, split_reference
from hierarchos.kernels.launch import Lowering, Operand, Profile, row_major

UNITS = Profile("gpu", 32, 49152, compute_units=132, matrices=(("f16", 16, 16, 16), ("bf16", 16, 16, 16)))
LARGE = ProductShape("NT", 2048, 3072, 576, 1)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20), st.integers(-60, 60))
@settings(max_examples=300, deadline=None)
def test_two_halves_hold_a_number_to_22_bits(values, exponent):
    with np.errstate(over="ignore"):
        x = (np.array(values, np.float32) * np.float32(2.0**exponent)).astype(np.float32)
    largest = np.abs(x).max()
    if not 1e-30 < largest < 1e38:
        return
    high, low, power = split_reference(x)
    assert np.abs(high).max() <= 2.0**15 and np.array_equal(high, high.astype(np.float16))
    error = np.abs((high.astype(np.float64) + low) / power - x)
    assert np.all(error <= np.maximum(2.0**-22 * np.abs(x), 2.0**-39 * largest))


def test_zeros_stay_zeros():
    high, low, _ = split_reference(np.zeros(3, np.float32))
    assert not high.any() and not low.any()


@pytest.mark.parametrize("changed", [{"batch": 2}, {"k": gemm_split.SHORTEST - 1}, {"profile": replace(UNITS, split=False)},
                                     {"profile": replace(UNITS, matrices=())}, {"profile": replace(UNITS, device_class="cpu")},
                                     {"profile": replace(UNITS, shared_bytes=16384)}])
def test_the_kernel_is_left_alone_where_it_does_not_suit(changed):
    shape = {"k": LARGE.k, "batch": 1, "profile": UNITS}
    assert gemm_split.usable(**shape) and not gemm_split.usable(**shape | changed)


def test_the_faster_kernel_is_chosen():
    assert isinstance(gemm_gpu.expected(LARGE, UNITS)[0], SplitTile)
    assert not isinstance(gemm_gpu.expected(LARGE, replace(UNITS, split=False))[0], SplitTile)
    assert not isinstance(gemm_gpu.expected(ProductShape("NT", 16, 16, 512, 1), UNITS)[0], SplitTile)


def test_measured_tiles_are_followed_only_while_the_kernel_is_wanted():
    entry = (LARGE.key, (*TILES[1].numbers, 2))
    assert gemm_gpu.choice(LARGE, replace(UNITS, tuned=(entry,))) == (TILES[1], 2)
    off = replace(UNITS, tuned=(entry,), split=False)
    assert gemm_gpu.choice(LARGE, off) == gemm_gpu.choice(LARGE, replace(off, tuned=()))


def test_tiles_of_both_kernels_are_told_apart():
    plain = {tile.numbers for tile in (*gemm_gpu.TILES, *gemm_gpu.MORE_TILES)}
    assert not plain & {tile.numbers for tile in (*TILES, *gemm_split.MORE_TILES)}


def test_a_product_is_a_search_and_a_product_and_a_sum_of_parts():
    product, _, _ = product_of(MatMul(False, True), [operand((200, 300)), operand((100, 300))], operand((200, 100)), UNITS)
    made, workspace = gemm_split.launches(product, TILES[1], 2, UNITS, 100)
    assert [item.shader for item in made] == ["largest", "gemm_split", "gemm_reduce"]
    assert workspace == 256 + 8 * gemm_split.PARTS + 2 * 4 * 200 * 100
    one, _ = gemm_split.launches(product, TILES[1], 1, UNITS, 0)
    assert [item.shader for item in one] == ["largest", "gemm_split"]


def operand(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, "f32", row_major(shape))


@pytest.fixture
def units(device):
    """A device with matrix units of float16, and its profile."""
    profile = replace(profile_of(device), device_class="gpu")
    if not gemm_split.fitting((*TILES, *gemm_split.MORE_TILES, SMALL), profile):
        pytest.skip("the device has no matrix units for float16 with fp32 sums")
    return device, profile


SMALL = SplitTile(32, 32, 32, 16, 16)


def run(units, op: MatMul, arrays: list[np.ndarray], splits: int = 1) -> np.ndarray:
    device, profile = units
    tile = gemm_split.fitting((*TILES, SMALL), profile)[-1]
    truth = matmul_reference(op, [x.astype(np.float64) for x in arrays])
    blocks = [device.allocate(x.nbytes, "test") for x in arrays] + [device.allocate(4 * truth.size, "test")]
    for block, x in zip(blocks, arrays, strict=False):
        device.upload(block.address, x)
    operands = [operand(x.shape) for x in arrays]
    product, _, _ = product_of(op, operands, operand(truth.shape), profile)
    made, nbytes = gemm_split.launches(product, tile, splits, profile, 0)
    scratch = device.allocate(max(nbytes, 256), "test")
    inputs = [(block.address, o) for block, o in zip(blocks, operands, strict=False)]
    device.record(bind(Lowering(tuple(made), nbytes), inputs, [(blocks[-1].address, operand(truth.shape))], scratch.address, "test")).run()
    got = np.frombuffer(bytes(device.download(blocks[-1].address, 4 * truth.size)), np.float32).reshape(truth.shape)
    for block in (*blocks, scratch):
        block.free()
    return got


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize(("transpose_a", "transpose_b", "m", "n", "k"),
                         [(False, True, 33, 31, 97), (False, False, 70, 90, 66), (True, False, 64, 40, 136), (True, True, 40, 64, 300)])
@pytest.mark.parametrize("exponent", [0, -60, 40])
def test_errors_are_those_of_fp32(units, transpose_a, transpose_b, m, n, k, splits, exponent):
    random = np.random.default_rng(k)
    a = random.standard_normal((k, m) if transpose_a else (m, k), np.float32) * np.float32(2.0**exponent)
    b = random.standard_normal((n, k) if transpose_b else (k, n), np.float32)
    op = MatMul(transpose_a, transpose_b)
    truth, plain = (matmul_reference(op, [x.astype(kind) for x in (a, b)]) for kind in (np.float64, np.float32))
    error, theirs = (np.sqrt(((x - truth) ** 2).mean()) for x in (run(units, op, [a, b], splits), plain))
    assert error <= max(2 * theirs, 1.5e-7 * np.sqrt((truth**2).mean()))


def test_bias_residual_and_activation_come_last(units):
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(shape, np.float32) for shape in ((37, 80), (50, 80), (50,), (37, 50))]
    op = MatMul(False, True, scale=0.5, has_bias=True, has_residual=True, activation="silu")
    truth = matmul_reference(op, [x.astype(np.float64) for x in arrays])
    assert np.abs(run(units, op, arrays) - truth).max() < 4e-6


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_not_hidden(units, bad):
    a, b = np.ones((40, 64), np.float32), np.ones((48, 64), np.float32)
    a[3, 5] = bad
    got = run(units, MatMul(False, True), [a, b])
    assert not np.isfinite(got[3]).any()
