"""Matrix products on the device against float64, for both families of kernels.

Tolerance: with P = |op(A)| |op(B)|, rounding errors of K products and sums in order stay, for random signs, well below
2 sqrt(K) 2^-24 P; a lost or doubled term is far above it. Epilogues add a few units in the last place of their terms.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.functions import gradients, linear, matmul
from hierarchos.graph.functions import input as graph_input
from hierarchos.graph.functions import sum as sum_over
from hierarchos.graph.op import ShapeError, tracing
from hierarchos.graph.ops.matmul import ACTIVATIONS, MatMul
from hierarchos.graph.tensor import Graph, Spec
from hierarchos.kernels.gemm_gpu import MORE_TILES, MOST_EXACT, NARROW, TILES, ProductShape, Tile, choose_tile, expected
from hierarchos.kernels.launch import Operand, Profile, row_major
from tests.support import run_op

GPU = Profile(device_class="gpu", subgroup=8, shared_bytes=32768)
PROFILES = {"cpu": None, "gpu": GPU, "gpu, plain sums": replace(GPU, exact_below=0)}
SPLITTING = replace(GPU, compute_units=63, exact_below=0)
SIZES = st.sampled_from([1, 2, 7, 31, 33, 64, 70, 130])
FEW = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
random = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def check(device, op, *arrays: np.ndarray, profile=None) -> np.ndarray:
    """Runs the op and compares with its twin in float64; returns what the device gave."""
    got, = run_op(device, op, *arrays, profile=profile)
    exact = [a.astype(np.float64) for a in arrays]
    truth, = op.reference(exact)
    plain = MatMul(op.transpose_a, op.transpose_b, op.fold)
    sizes, = plain.reference([np.abs(a) for a in exact[:2]])
    k = plain.matrix(arrays[0].shape, op.transpose_a)[1]
    allowed = 2**-24 * (2 * np.sqrt(k) * abs(op.scale) * sizes + 8 * np.abs(truth) + 8 * sum(np.abs(e).max() for e in exact[2:]) + 4)
    assert got.shape == truth.shape
    assert (np.abs(got - truth) <= allowed).all(), f"{op}: {np.max(np.abs(got - truth) / allowed):.1f} times the tolerance"
    return got


@pytest.mark.parametrize("kind", PROFILES)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@FEW
@given(m=SIZES, n=SIZES, k=SIZES)
def test_products_of_any_size(device, kind, transpose_a, transpose_b, m, n, k):
    a = normal(k, m) if transpose_a else normal(m, k)
    b = normal(n, k) if transpose_b else normal(k, n)
    check(device, MatMul(transpose_a, transpose_b), a, b, profile=PROFILES[kind])


@pytest.mark.parametrize("kind", PROFILES)
@pytest.mark.parametrize("m,n,k", [(257, 257, 33), (64, 128, 513), (300, 130, 257)])
def test_products_over_several_tiles_and_blocks(device, kind, m, n, k):
    check(device, MatMul(transpose_b=True), normal(m, k), normal(n, k), profile=PROFILES[kind])
    check(device, MatMul(transpose_a=True), normal(k, m), normal(k, n), profile=PROFILES[kind])


@pytest.mark.parametrize("transpose_a,transpose_b", [(False, False), (False, True), (True, False)])
def test_bits_do_not_depend_on_the_tile_of_a_cpu_driver(device, monkeypatch, transpose_a, transpose_b):
    a, b = (normal(200, 128) if transpose_a else normal(128, 200)), (normal(128, 200) if transpose_b else normal(200, 128))
    found = []
    for tile in ((16, 4), (32, 8), (64, 8)):
        monkeypatch.setattr("hierarchos.kernels.gemm_cpu.choose_tile", lambda *_, tile=tile: tile)
        found.append(check(device, MatMul(transpose_a, transpose_b), a, b))
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[1], found[2])


@pytest.mark.parametrize("kind", PROFILES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("m,n", [(64, 128), (33, 71), (3, 40)])
def test_epilogue(device, kind, activation, m, n):
    op = MatMul(transpose_b=True, has_bias=True, has_residual=True, activation=activation, scale=0.37)
    check(device, op, normal(m, 31), normal(n, 31), normal(n), normal(m, n), profile=PROFILES[kind])


@pytest.mark.parametrize("op,writes_once", [
    (MatMul(), False), (MatMul(activation="silu"), True), (MatMul(has_residual=True), False),
    (MatMul(has_residual=True, accumulate=True), True)])
def test_tiles_share_outputs_only_where_nothing_is_read_again(op, writes_once):
    """A shared output that is read again would be a race: activated or added twice, once in a thousand runs."""
    shapes = [(33, 40), (40, 71)] + [(33, 71)] * op.has_residual
    operands = [Operand(shape, "f32", row_major(shape)) for shape in shapes]
    launch, = op.lower(operands, [Operand((33, 71), "f32", (71, 1))], Profile(device_class="cpu", subgroup=8)).launches
    rows, edge = launch.constants[1], launch.constants[5]
    assert rows < 33 and edge == writes_once


@pytest.mark.parametrize("kind", PROFILES)
@pytest.mark.parametrize("m,n", [(64, 64), (33, 71), (40, 1), (96, 72)])
def test_accumulation_in_place_adds_once(device, kind, m, n):
    op = MatMul(has_residual=True, accumulate=True)
    check(device, op, normal(m, 31), normal(31, n), normal(m, n), profile=PROFILES[kind])


@pytest.mark.parametrize("kind", PROFILES)
def test_batches_and_strided_views(device, kind):
    profile = PROFILES[kind]
    check(device, MatMul(), normal(2, 3, 9, 8), normal(2, 3, 8, 17), profile=profile)
    check(device, MatMul(transpose_a=True), normal(5, 8, 9), normal(8, 17), profile=profile)                      # shared b
    heads = normal(2, 9, 4, 24)                                                                                   # [B, T, H, D]
    check(device, MatMul(), heads[..., :8].transpose(0, 2, 1, 3), heads[..., 8:16].transpose(0, 2, 3, 1), profile=profile)
    check(device, MatMul(transpose_b=True, fold=True), normal(4, 6, 66)[:, :, 1:34], normal(40, 34)[:, :33], profile=profile)
    check(device, MatMul(transpose_b=True, fold=True), normal(6, 4, 33).transpose(1, 0, 2), normal(40, 33), profile=profile)  # copied
    check(device, MatMul(), normal(9, 66)[:, ::2], normal(33, 80)[:, ::2], profile=profile)                       # copied
    many = normal(2, 4, 4, 9, 8)
    check(device, MatMul(), many[:, ::2].transpose(2, 1, 0, 3, 4), many[:, 1::2].transpose(2, 1, 0, 4, 3), profile=profile)
    check(device, MatMul(), np.broadcast_to(normal(1, 9), (7, 9)), normal(9, 5), profile=profile)


@pytest.mark.parametrize("kind", PROFILES)
def test_folded_weight_gradient_sums_over_all_leading_axes(device, kind):
    check(device, MatMul(transpose_a=True, fold=True), normal(3, 37, 33), normal(3, 37, 65), profile=PROFILES[kind])


@pytest.mark.parametrize("tile", [Tile(32, 32, 32, 4, 4, 4), Tile(64, 32, 16, 8, 4, 2), Tile(32, 96, 16, 4, 12, 1)])
@pytest.mark.parametrize("m,n,k,splits", [(128, 64, 96, 1), (70, 33, 101, 1), (64, 96, 256, 2)])
@pytest.mark.parametrize("exact_below", [0, GPU.exact_below], ids=["plain sums", "compensated sums"])
def test_tiles_of_other_forms(device, monkeypatch, tile, m, n, k, splits, exact_below):
    profile = replace(GPU, exact_below=exact_below)
    monkeypatch.setattr("hierarchos.kernels.gemm_gpu.choose_tile", lambda *_: (tile, splits))
    check(device, MatMul(), normal(m, k), normal(k, n), profile=profile)
    check(device, MatMul(transpose_b=True, has_residual=True), normal(m, k), normal(n, k), normal(m, n), profile=profile)
    check(device, MatMul(transpose_a=True), normal(k, m), normal(k, n), profile=profile)


@pytest.mark.parametrize(("m", "n", "k", "splits"), [(70, 90, 66, 1), (33, 31, 264, 2), (5, 130, 101, 1)])
def test_a_narrow_tile_gives_the_same_bits(device, monkeypatch, m, n, k, splits):
    op, found = MatMul(transpose_b=True, has_bias=True, has_residual=True, activation="silu", scale=0.5), []
    arrays = normal(m, k), normal(n, k), normal(n), normal(m, n)
    for tile in (TILES[-1], NARROW):
        monkeypatch.setattr("hierarchos.kernels.gemm_gpu.expected", lambda *_, tile=tile: (tile, splits))
        found.append(check(device, op, *arrays, profile=GPU))
    assert found[0].tobytes() == found[1].tobytes()


def test_small_products_take_narrow_tiles_where_a_gpu_has_idle_units():
    large = Profile(device_class="gpu", subgroup=32, shared_bytes=49152, compute_units=132)
    assert expected(ProductShape("NT", 512, 128, 128, 1), large) == (NARROW, 1)
    assert expected(ProductShape("NT", 512, 128, 128, 1), replace(large, exact_below=0)) == (TILES[-1], 1)
    assert expected(ProductShape("NT", 512, 128, 128, 1), replace(large, compute_units=2))[0] is not NARROW


@pytest.mark.parametrize("units", [1, 2, 4, 16, 132])
def test_small_products_are_compensated_on_gpus_of_every_size(units):
    profile = Profile(device_class="gpu", subgroup=32, shared_bytes=49152, compute_units=units)
    for m, n, k, batch in ((72, 131, 72, 1), (387, 264, 136, 1), (64, 4096, 64, 1), (256, 256, 256, 1), (33, 1024, 16, 8)):
        assert expected(ProductShape("NT", m, n, k, batch), profile)[0].sums <= MOST_EXACT


def test_small_products_of_gpus_err_less(device):
    """At K = 264 compensated sums leave 0.6 to 0.7 of the error of chains of 66, where an fma is not fused."""
    a, b = normal(100, 264), normal(264, 70)
    truth = a.astype(np.float64) @ b
    plain, exact = (run_op(device, MatMul(), a, b, profile=PROFILES[kind])[0] for kind in ("gpu, plain sums", "gpu"))
    assert np.square(exact - truth).mean() <= 0.75**2 * np.square(plain - truth).mean()


def test_a_row_has_the_same_bits_in_every_product(device):
    """On CPU drivers; GPUs split K by the size of the product, which changes the order of sums."""
    if device.info.kind != "software":
        pytest.skip("GPU tiles split K by the size of the product")
    x, w = normal(70, 300), normal(96, 300)
    whole, = run_op(device, MatMul(transpose_b=True), x, w)
    for rows in (slice(0, 1), slice(3, 11), slice(20, 53), slice(69, 70)):
        part, = run_op(device, MatMul(transpose_b=True), x[rows], w)
        assert (part == whole[rows]).all()


@pytest.mark.parametrize("m,n,k", [(33, 65, 2048), (16, 16, 4099)])
def test_split_k_repeats_its_bits(device, m, n, k):
    assert choose_tile(m, n, k, 1, SPLITTING)[1] > 1
    op = MatMul(transpose_a=True, has_bias=True, has_residual=True, activation="silu")
    arrays = normal(k, m), normal(k, n), normal(n), normal(m, n)
    assert (check(device, op, *arrays, profile=SPLITTING) == check(device, op, *arrays, profile=SPLITTING)).all()


def test_no_part_of_a_split_product_is_empty():
    operands = [Operand((8193, 16), "f32", (16, 1)), Operand((8193, 16), "f32", (16, 1))]
    large = Profile(device_class="gpu", subgroup=32, shared_bytes=49152, compute_units=132)
    product, second = MatMul(transpose_a=True).lower(operands, [Operand((16, 16), "f32", (16, 1))], large).launches
    splits, part = (product.arguments[at].value for at in (-4, -3))
    assert splits > 16 and (splits - 1) * part < 8193 <= splits * part
    assert second.arguments[6].value == splits


@pytest.mark.parametrize("tile", [*TILES, NARROW, *MORE_TILES], ids=lambda tile: "x".join(map(str, tile.numbers)))
def test_tiles_keep_the_limits_of_the_kernel(tile):
    assert tile.m * tile.k // 4 % tile.invocations == tile.n * tile.k // 4 % tile.invocations == 0 and tile.invocations % 32 == 0
    assert tile.m % 32 == tile.n % 32 == tile.m // tile.each_m % 8 == tile.n // tile.each_n % 8 == tile.k // tile.slices % 4 == 0
    assert tile.shared_bytes <= 49152


def test_tiles_for_a_large_gpu():
    large = Profile(device_class="gpu", subgroup=32, shared_bytes=49152, compute_units=132)
    for n in (2048, 4096):
        tile, splits = choose_tile(n, n, n, 1, large)
        assert ((tile.m, tile.n), splits) == ((128, 128), 1)
    tile, splits = choose_tile(1024, 1024, 1024, 1, large)
    assert tile.count(1024, 1024) * splits >= 0.9 * 132                     # nearly every multiprocessor has work
    tile, splits = choose_tile(64, 64, 64, 1, large)
    assert ((tile.m, tile.n), splits) == ((64, 32), 1)
    tile, splits = choose_tile(256, 1024, 8192, 1, large)                   # dW of a linear layer over 8192 tokens
    assert splits > 1 and tile.count(256, 1024) * splits >= 100


def test_tiles_for_a_small_gpu_need_little_shared_memory():
    tile, _ = choose_tile(4096, 4096, 4096, 1, Profile(device_class="gpu", shared_bytes=16384, compute_units=8))
    assert tile.shared_bytes <= 16384
    tile, _ = choose_tile(4096, 4096, 4096, 1, Profile(device_class="gpu", shared_bytes=32768, compute_units=8))
    assert (tile.m, tile.n) == (128, 128)


@pytest.mark.parametrize("a,b,message", [
    ((3, 4), (5, 6), "inner extents differ, 4 and 5, in [3, 4] x [5, 6]"),
    ((2, 3, 4), (3, 4, 6), "batch axes differ in [2, 3, 4] x [3, 4, 6]; give b two axes to share it"),
    ((4,), (4, 6), "both operands need two axes or more; got [4] and [4, 6]"),
])
def test_shapes_that_do_not_fit_are_named(a, b, message):
    with pytest.raises(ShapeError) as failure:
        MatMul().infer([Spec(a), Spec(b)])
    assert message in str(failure.value)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("batch_a,batch_b", [((), ()), ((2,), (2,)), ((2, 3), ()), ((2, 3), (2, 3))])
def test_gradients_of_matmul(transpose_a, transpose_b, batch_a, batch_b):
    a = (*batch_a, 4, 5) if transpose_a else (*batch_a, 5, 4)
    b = (*batch_b, 6, 4) if transpose_b else (*batch_b, 4, 6)
    check_gradients(lambda x, y: matmul(x, y, transpose_a, transpose_b), a, b)


@pytest.mark.parametrize("layout", ["out_in", "in_out"])
def test_gradients_of_linear(layout):
    check_gradients(lambda x, w, b: linear(x, w, b, layout), (2, 3, 4), (6, 4) if layout == "out_in" else (4, 6), (6,))


def check_gradients(function, *shapes) -> None:
    """Compares with central differences in float64; the function is linear in each argument, so they are exact."""
    graph = Graph()
    with tracing(graph):
        tensors = [graph_input(f"x{i}", shape, "f32") for i, shape in enumerate(shapes)]
        result = function(*tensors)
        seed = graph_input("seed", result.shape, "f32")
        graph.outputs["loss"] = sum_over(result * seed, tuple(range(result.rank)), False)
        for i, g in enumerate(gradients(graph.outputs["loss"], tensors)):
            graph.outputs[f"g{i}"] = g
    feeds = {t.node.op.name: random.standard_normal(t.shape) for t in [*tensors, seed]}
    outputs, _ = evaluate(graph, feeds, dtype="float64")
    for i, tensor in enumerate(tensors):
        at = tuple(int(random.integers(extent)) for extent in tensor.shape)
        sides = []
        for step in (0.5, -0.5):
            moved = feeds[f"x{i}"].copy()
            moved[at] += step
            sides.append(evaluate(graph, feeds | {f"x{i}": moved}, dtype="float64")[0]["loss"])
        assert outputs[f"g{i}"].shape == tensor.shape
        assert np.isclose(outputs[f"g{i}"][at], sides[0] - sides[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("m,n,k", [(70, 40, 200), (32, 64, 192)])
def test_blocks_of_k_are_added_up_in_the_output(device, monkeypatch, m, n, k):
    """What tiles do whose sums fill the registers: here with a small one, three blocks or more."""
    monkeypatch.setattr(Tile, "through", True)
    monkeypatch.setattr("hierarchos.kernels.gemm_gpu.LONGEST_CHAIN", 64)
    monkeypatch.setattr("hierarchos.kernels.gemm_gpu.choose_tile", lambda *_: (Tile(64, 64, 16, 4, 4, 1), 1))
    op = MatMul(transpose_b=True, has_bias=True, has_residual=True, activation="silu", scale=0.5)
    check(device, op, normal(m, k), normal(n, k), normal(n), normal(m, n), profile=PROFILES["gpu, plain sums"])
    op = MatMul(transpose_a=True, has_residual=True, accumulate=True)
    check(device, op, normal(k, m), normal(k, n), normal(m, n), profile=PROFILES["gpu, plain sums"])
