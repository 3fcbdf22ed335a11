"""Half formats: rounding on the device, products and attention over halves, and the kernels on matrix units where a device has them."""
from dataclasses import replace

import numpy as np
import pytest

from hierarchos.graph import functions as F
from hierarchos.graph.op import ShapeError, apply, tracing
from hierarchos.graph.ops.half import HalfAttention, HalfAttentionBackward, HalfMatMul
from hierarchos.graph.profile import profile_of
from hierarchos.graph.program import compile_program
from hierarchos.graph.tensor import Graph, Spec
from hierarchos.kernels import attention_half, gemm_half
from hierarchos.kernels.attention_rule import AttentionRule
from hierarchos.kernels.gemm_half import Tile
from hierarchos.kernels.half import HALVES, from_bits, round_to, to_bits
from hierarchos.kernels.half_shader import bfloat_code, half_shader
from hierarchos.kernels.launch import Operand, Profile, row_major
from hierarchos.kernels.matrix_units import matrix_shape
from hierarchos.kernels.spirv import instructions
from validation.bench_half import Case

EPS = {"f16": 2.0**-11, "bf16": 2.0**-8}            # half a unit in the last place, relative
H200 = Profile(device_class="gpu", subgroup=32, shared_bytes=49152, compute_units=132,
               matrices=(("f16", 16, 16, 16), ("bf16", 16, 16, 16)))
random = np.random.default_rng(3)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def run(device, build, **arrays):
    """Outputs of a graph that `build(**inputs)` traces."""
    with tracing(Graph()) as graph:
        inputs = {name: F.input(name, array.shape, "i32" if array.dtype == np.int32 else "f32") for name, array in arrays.items()}
        graph.outputs |= build(**inputs)
    return compile_program(graph, device).run(arrays)


@pytest.mark.parametrize("dtype", HALVES)
def test_every_rounding_is_to_nearest_even_as_numpy_rounds(device, dtype):
    bits = np.concatenate([np.arange(0, 2**32, 65537 * 29, dtype=np.uint64).astype(np.uint32),
                           np.array([0x7F800000, 0xFF800000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001, 0x387FFFFF], np.uint32)])
    x = bits.view(np.float32)
    x = x[~np.isnan(x) & ((np.abs(x) > 1e-37) | (x == 0))]
    got = run(device, lambda x: {"y": F.cast(F.contiguous(F.cast(x, dtype)), "f32")}, x=x)["y"]
    np.testing.assert_array_equal(got, round_to(x, dtype))
    np.testing.assert_array_equal(from_bits(to_bits(x, dtype), dtype), round_to(x, dtype))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("result", ["f32", "half"])
def test_a_product_of_halves_is_the_fp32_product_of_rounded_operands_bit_for_bit(device, dtype, result):
    if profile_of(device).device_class == "gpu" and matrix_shape(profile_of(device), dtype):
        pytest.skip("matrix units sum in another order")
    a, b = normal(33, 40), normal(24, 40)
    op = HalfMatMul(transpose_b=True, fold=True, result=dtype if result == "half" else "f32")
    half = run(device, lambda a, b: {"c": F.cast(apply(op, F.cast(a, dtype), F.cast(b, dtype))[0], "f32")}, a=a, b=b)["c"]
    wide = run(device, lambda a, b: {"c": F.linear(a, b)}, a=round_to(a, dtype), b=round_to(b, dtype))["c"]
    np.testing.assert_array_equal(half, round_to(wide, dtype) if result == "half" else wide)


def test_operands_of_two_formats_are_refused():
    with pytest.raises(ShapeError, match="one half format; got f16, bf16"):
        HalfMatMul().infer([Spec((2, 3), "f16"), Spec((3, 4), "bf16")])


@pytest.mark.parametrize("name", ["gemm_half", "attention_half", "attention_half_rows", "attention_half_keys", "attention_units",
                                  "attention_units_rows", "attention_units_keys", "matrix_layout"])
def test_the_bfloat_kernel_is_the_f16_kernel_over_another_type(name):
    code = half_shader(name, "f16").code
    ours, other = instructions(code), instructions(bfloat_code(code))
    assert [i[2:] for i in ours if i[0] == 22 and i[2] == 16] == [(16,)]
    assert [i[2:] for i in other if i[0] == 22 and i[2] == 16] == [(16, 0)]
    assert {(17, 5116), (17, 5118)} <= set(other) and (17, 9) not in other
    assert len(other) == len(ours) + 2


def operand(shape, dtype):
    return Operand(shape, dtype, row_major(shape))


@pytest.mark.parametrize(("m", "n", "k"), [(8192, 576, 3072), (4096, 4096, 4096), (70, 90, 50), (3, 5, 7), (49152, 576, 1024)])
def test_products_on_matrix_units_fit_the_device(m, n, k):
    layouts = (HalfMatMul(), (m, k), (k, n)), (HalfMatMul(transpose_b=True), (m, k), (n, k)), (HalfMatMul(transpose_a=True), (k, m), (k, n))
    for op, a, b in layouts:
        lowering = op.lower([operand(a, "bf16"), operand(b, "bf16")], [operand((m, n), "f32")], H200)
        first = lowering.launches[0]
        invocations, tile_m, tile_n, tile_k = first.constants[:4]
        assert first.shader.name == "gemm_half bf16" and first.constants[15]
        assert invocations <= 256 and tile_m * tile_k % (8 * invocations) == tile_n * tile_k % (8 * invocations) == 0
        tiles = [t for t in gemm_half.TILES if (t.m, t.n, t.k) == (tile_m, tile_n, tile_k)]
        assert all(t.shared_bytes(op.transpose_a, op.transpose_b, 16) <= H200.shared_bytes for t in tiles)


def attention_operands(width, dtype="f16"):
    q, k = operand((2, 40, 4, width), dtype), operand((2, 40, 2, width), dtype)
    return [q, k, k], [q, operand((2, 4, 40), "f32")]


@pytest.mark.parametrize(("rule", "width", "on_units"), [
    (AttentionRule(0.1), 64, True), (AttentionRule(0.1, window=9), 128, True), (AttentionRule(0.1, softcap=30.0), 64, False),
    (AttentionRule(0.1), 72, False), (AttentionRule(0.1), 256, False)])
def test_attention_runs_on_matrix_units_where_they_know_the_rule(rule, width, on_units):
    inputs, outputs = attention_operands(width)
    names = [getattr(x.shader, "name", x.shader) for x in HalfAttention(rule, format="f16").lower(inputs, outputs, H200).launches]
    assert (names == ["attention_half"]) == on_units
    assert on_units or "elementwise_cast" in names


@pytest.mark.parametrize("dtype", HALVES)
def test_attention_over_halves_rounds_its_operands_and_results(device, dtype):
    q, k, v, g = (round_to(normal(2, 9, heads, 16), dtype) for heads in (4, 2, 2, 4))
    rule = AttentionRule(0.25)

    def build(q, k, v, g):
        halves = [F.cast(x, dtype) for x in (q, k, v, g)]
        out, lse = apply(HalfAttention(rule, format=dtype), *halves[:3])
        gradients = apply(HalfAttentionBackward(rule, format=dtype), *halves[:3], out, lse, halves[3])
        return {"out": F.cast(out, "f32"), "lse": lse, **{n: F.cast(x, "f32") for n, x in zip(("dq", "dk", "dv"), gradients, strict=True)}}
    got = run(device, build, q=q, k=k, v=v, g=g)
    wide = [x.astype(np.float64) for x in (q, k, v, g)]
    out, lse = HalfAttention(rule, format=dtype).reference(wide[:3])
    truth = HalfAttentionBackward(rule, format=dtype).reference([*wide[:3], out, lse, wide[3]])
    for name, exact in zip(("out", "lse", "dq", "dk", "dv"), (out, lse, *truth), strict=True):
        assert np.abs(got[name] - exact).max() <= 4 * EPS[dtype] * np.abs(exact).max()


@pytest.fixture
def units(device):
    """A profile that uses the device's matrix units, a software driver's too."""
    profile = replace(profile_of(device), device_class="gpu")
    if not matrix_shape(profile, "f16"):
        pytest.skip("the device has no matrix units")
    return profile


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_matrix_units_multiply_any_shape(device, units, layout):
    for sizes in ("37,50,21", "64,32,48", "8,9,130"):
        assert Case(device, units, f"{layout}:{sizes}", "f16").error(Tile(32, 32, 64, 16, 16, 2)) < 1e-4


def test_a_head_that_matrix_units_do_not_fit_is_widened():
    inputs, _ = attention_operands(72)
    assert attention_half.usable_matrix(AttentionRule(0.1), attention_half.AttentionShape(2, 40, 40, 4, 2, 72, 72), inputs, H200) is None
