"""Products of a few rows with norm, gate, bias, residual and activation folded in agree with their NumPy twin."""

from dataclasses import replace

import numpy as np
import pytest

from hierarchos.graph.ops.gemv import Gemv
from hierarchos.graph.profile import joins_loads, profile_of
from hierarchos.kernels.gemv import lower_gemv, parts_of
from hierarchos.kernels.launch import JOINED_LOADS, Operand, Profile, row_major
from hierarchos.vulkan.info import DeviceInfo
from tests.support import run_op

RNG = np.random.default_rng(3)


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def operands(op, rows, k, n):
    shapes = {
        "x": (rows, k),
        "second": (rows, k),
        "norm_weight": (k,),
        "norm_bias": (k,),
        "weight": (n, k),
        "bias": (n,),
        "residual": (rows, n),
    }
    return [numbers(*shapes[name]) for name in op.names]


def with_joined_loads(profile: Profile, joined: bool) -> Profile:
    return replace(profile, features=profile.features - {JOINED_LOADS} | ({JOINED_LOADS} if joined else set()))


def half_of(weight: np.ndarray, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """Packed pairs u32 [N,K/2], and what they mean."""
    if kind == 1:
        short = weight.astype(np.float16)
        return short.view(np.uint32), short.astype(np.float32)
    bits = (weight.view(np.uint32) >> 16).astype(np.uint16)
    return bits.view(np.uint32), (bits.astype(np.uint32) << 16).view(np.float32)


CASES = [
    (Gemv(), 1, 64, 5),
    (Gemv(has_bias=True, has_residual=True, activation="gelu", scale=0.5), 3, 48, 33),
    (Gemv("rms", eps=1e-5, norm_weight=True), 1, 576, 40),
    (Gemv("rms", eps=1e-5, offset=1.0, norm_weight=True, has_residual=True), 2, 32, 9),
    (Gemv("layer", eps=1e-5, norm_weight=True, norm_bias=True, has_bias=True, activation="gelu_tanh"), 4, 80, 17),
    (Gemv("layer", eps=1e-5), 2, 16, 3),
    (Gemv("gated", gate="silu", has_residual=True), 1, 96, 12),
    (Gemv("gated"), 8, 64, 7),
]


@pytest.mark.parametrize(("op", "rows", "k", "n"), CASES, ids=[f"{i}" for i in range(len(CASES))])
def test_agrees_with_the_twin(device, op, rows, k, n):
    arrays = operands(op, rows, k, n)
    expected = op.reference([a.astype(np.float64) for a in arrays])[0]
    found = run_op(device, op, *arrays)[0]
    assert np.abs(found - expected).max() < 3e-6 * np.abs(expected).max()


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("rows", [1, 5])
def test_half_weights_are_read_exactly(device, kind, rows):
    op = Gemv("rms", eps=1e-6, norm_weight=True, half=kind)
    x, norm, weight = numbers(rows, 96), numbers(96), numbers(21, 96)
    packed, meant = half_of(weight, kind)
    expected = Gemv("rms", eps=1e-6, norm_weight=True).reference([a.astype(np.float64) for a in (x, norm, meant)])[0]
    assert np.abs(run_op(device, op, x, norm, packed)[0] - expected).max() < 3e-6 * np.abs(expected).max()
    assert np.abs(op.reference([x, norm, packed])[0] - expected).max() < 3e-6 * np.abs(expected).max()


@pytest.mark.parametrize("k", [64, 576, 2560])
@pytest.mark.parametrize("half", [0, 1, 2])
@pytest.mark.parametrize("joined", [True, False], ids=["straight", "loop"])
def test_a_row_has_the_same_bits_beside_other_rows(device, k, half, joined):
    op, profile = Gemv(half=half), with_joined_loads(profile_of(device), joined)
    x, weight = numbers(8, k), numbers(19, k)
    weight = half_of(weight, half)[0] if half else weight
    together = run_op(device, op, x, weight, profile=profile)[0]
    for rows in (1, 2, 3, 5):
        assert np.array_equal(run_op(device, op, x[2 : 2 + rows], weight, profile=profile)[0], together[2 : 2 + rows])


@pytest.mark.parametrize("joined", [True, False], ids=["straight", "loop"])
@pytest.mark.parametrize(("rows", "k", "n"), [(1, 576, 13), (3, 96, 40), (4, 1536, 9), (6, 576, 40)])
def test_both_cpu_kernels_agree_with_the_twin(device, rows, k, n, joined):
    op = Gemv("gated", gate="silu", has_bias=True, has_residual=True, activation="gelu", scale=0.5)
    arrays = operands(op, rows, k, n)
    expected = op.reference([a.astype(np.float64) for a in arrays])[0]
    found = run_op(device, op, *arrays, profile=with_joined_loads(profile_of(device), joined))[0]
    assert np.abs(found - expected).max() < 3e-6 * np.abs(expected).max()


def test_the_straight_line_is_taken_where_loads_are_joined():
    def launch(rows, k, n, half=0, joined=True):
        shapes = ((rows, k), (n, k >> (half > 0)))
        inputs = [Operand(s, "u32" if half and i else "f32", row_major(s)) for i, s in enumerate(shapes)]
        lowering = lower_gemv(Gemv(half=half), inputs, Operand((rows, n), "f32", (n, 1)), with_joined_loads(Profile(), joined))
        assert len(lowering.launches[0].arguments) <= 8 + 14, "128 bytes of push constants"
        return lowering.launches[0].shader

    assert launch(1, 576, 49152) == launch(4, 1536, 576) == launch(2, 576, 64, half=2) == "gemv_wide"
    assert launch(5, 576, 64) == launch(4, 576, 64, half=1) == launch(1, 4096, 64) == launch(1, 576, 64, joined=False) == "gemv_cpu"


def test_only_the_driver_that_joins_loads_is_said_to():
    def software(driver):
        return DeviceInfo(0, "llvmpipe", "software", driver=driver)

    assert joins_loads(software("llvmpipe Mesa 22.3.6 (LLVM 15.0.6)"))
    assert not joins_loads(software("llvmpipe Mesa 25.0.7 (LLVM 15.0.6)"))
    assert not joins_loads(DeviceInfo(0, "Radeon", "discrete", driver="radv Mesa 22.3.6"))


def test_parts_of_long_rows_hold_all_of_it():
    for words in (1, 3, 36, 37, 96, 101, 896):
        found = [parts_of(words, rows) for rows in range(1, 9)]
        assert len({turns for turns, _, _ in found}) == 1, "the order of sums is that of one row"
        assert all(whole == words and words % part == 0 and part % turns == 0 for turns, part, whole in found)
    assert parts_of(96, 1) == (8, 96, 96) and parts_of(96, 8) == (8, 32, 96) and parts_of(36, 1) == (9, 36, 36)


def test_views_are_rows(device):
    whole = numbers(2, 3 * 32)
    op = Gemv("gated", gate="gelu")
    expected = op.reference([whole[:, :32], whole[:, 64:], w := numbers(6, 32)])[0]
    assert np.abs(run_op(device, op, whole[:, :32], whole[:, 64:], w)[0] - expected).max() < 1e-5


def test_a_rerun_gives_the_same_bits(device):
    op, arrays = CASES[2][0], operands(CASES[2][0], 1, 576, 40)
    assert np.array_equal(run_op(device, op, *arrays)[0], run_op(device, op, *arrays)[0])


def test_long_rows_need_no_shared_memory():
    def shaders(rows, k):
        op = Gemv("gated")
        shapes = (rows, k), (rows, k), (64, k)
        lowering = lower_gemv(
            op,
            [Operand(s, "f32", row_major(s)) for s in shapes],
            Operand((rows, 64), "f32", (64, 1)),
            Profile("gpu", subgroup=32, compute_units=16),
        )
        return [launch.shader for launch in lowering.launches]

    assert shaders(1, 1536) == ["gemv_fused"] and shaders(4, 14336) == ["gemv_prologue", "gemv_fused"]
