"""Attention on the device against its NumPy twin in float64, for the CPU and the GPU kernels; derivatives against differences.

Tolerance: 2e-6 of the largest true value (at least 1). PyTorch's own float32 reaches 7e-7 on such operands, ours 9e-7: each score
carries about sqrt(D) roundings of 2^-24 and each sum over keys or rows as many again. A wrong mask, row or factor is off by 1e-2.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hierarchos.graph import functions as F
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import ShapeError, tracing
from hierarchos.graph.ops.attention import Attention, AttentionBackward
from hierarchos.graph.tensor import Graph
from hierarchos.kernels.attention_reference import NEGLIGIBLE, kept
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.attention_tiles import choose_tile, tiles_forward
from hierarchos.kernels.launch import Operand, Profile, row_major
from tests.support import run_op

TOLERANCE = 2e-6
SMALL_TILES = Profile(device_class="gpu", subgroup=8, shared_bytes=4096)          # small tiles compile fast on a CPU driver
TALL_TILES = Profile(device_class="gpu", subgroup=8, shared_bytes=32768, compute_units=1)
PROFILES = {"cpu": None, "gpu": SMALL_TILES, "gpu, plain sums": replace(SMALL_TILES, exact_below=0)}
random = np.random.default_rng(11)
kinds = pytest.mark.parametrize("kind", PROFILES)


def normal(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def operands(batch, queries, keys, heads, key_heads, width, value_width=None):
    value_width = value_width or width
    return normal(batch, queries, heads, width), normal(batch, keys, key_heads, width), normal(batch, keys, key_heads, value_width)


def exact(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def close(got: np.ndarray, truth: np.ndarray, what: str) -> None:
    assert got.shape == truth.shape
    error = np.abs(got - truth).max() / max(1.0, np.abs(truth).max())
    assert error <= TOLERANCE, f"{what}: {error:.1e} of the largest value"


def check(device, rule: AttentionRule, qkv, optional=(), kind="cpu", profile=None):
    """Forward and backward against the twin in float64; returns what the device gave: out, dq, dk, dv."""
    profile = profile or PROFILES[kind]
    dout = normal(*qkv[0].shape[:3], qkv[2].shape[3])
    out, lse = run_op(device, Attention(rule), *qkv, *optional, profile=profile)
    gradients = run_op(device, AttentionBackward(rule), *qkv, out, lse, dout, *optional, profile=profile)
    true_qkv = [exact(a) for a in qkv]
    true_out, true_lse = Attention(rule).reference([*true_qkv, *optional])
    truths = AttentionBackward(rule).reference([*true_qkv, true_out, true_lse, exact(dout), *optional])
    blind = true_lse == NEGLIGIBLE
    assert (lse[blind] == np.float32(NEGLIGIBLE)).all()
    close(np.where(blind, 0, lse), np.where(blind, 0, true_lse), "log-sum-exp")
    for got, truth, what in zip([out, *gradients], [true_out, *truths], ["out", "dq", "dk", "dv"], strict=True):
        close(got, truth, what)
    return out, *gradients


@kinds
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (7, 7), (31, 31), (33, 33), (1, 33), (7, 65), (65, 7), (257, 257)])
def test_causal_attention_of_any_length(device, kind, queries, keys):
    check(device, AttentionRule(16**-0.5), operands(2 if queries < 100 else 1, queries, keys, 2, 2, 16), kind=kind)


def test_tall_tiles(device):
    """Heads of 24 channels end the process on lavapipe with LLVM 19.1 ("Cannot emit physreg copy instruction"); 8, 16 and 32 do not."""
    check(device, AttentionRule(0.25, window=50), operands(1, 70, 70, 4, 2, 32), profile=TALL_TILES)


@kinds
@pytest.mark.parametrize("width", [1, 7, 8, 33, 40, 72])
def test_any_head_width(device, kind, width):
    check(device, AttentionRule(width**-0.5), operands(1, 9, 9, 1, 1, width), kind=kind)


@kinds
def test_wide_heads(device, kind):
    check(device, AttentionRule(1 / 16), operands(1, 5, 11, 1, 1, 256), kind=kind)


@kinds
def test_values_of_another_width(device, kind):
    check(device, AttentionRule(0.3), operands(2, 9, 9, 2, 1, 12, 20), kind=kind)


@kinds
@pytest.mark.parametrize(("heads", "key_heads"), [(4, 2), (3, 1), (8, 1)])
def test_grouped_queries(device, kind, heads, key_heads):
    check(device, AttentionRule(0.25), operands(2, 11, 13, heads, key_heads, 16), kind=kind)


@kinds
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 9])
def test_windows(device, kind, causal, window):
    check(device, AttentionRule(0.25, causal, window), operands(1, 33, 40, 1, 1, 16), kind=kind)


@kinds
@pytest.mark.parametrize("packing", ["left", "right", "documents"])
def test_segments(device, kind, packing):
    line = {"left": [0] * 9 + [1] * 24, "right": [1] * 24 + [0] * 9, "documents": [1] * 5 + [2] * 20 + [3] * 8}[packing]
    segments = np.array([line, line[::-1]], np.int32)
    check(device, AttentionRule(0.25, segments=True), operands(2, 33, 33, 2, 2, 16), [segments, segments], kind=kind)


@kinds
def test_documents_do_not_see_each_other(device, kind):
    segments = np.array([[1] * 6 + [2] * 11], np.int32)
    q, k, v = operands(1, 17, 17, 2, 2, 16)
    packed = check(device, AttentionRule(0.25, segments=True), (q, k, v), [segments, segments], kind=kind)[0]
    alone = check(device, AttentionRule(0.25), (q[:, 6:], k[:, 6:], v[:, 6:]), kind=kind)[0]
    close(packed[:, 6:], alone, "second document")


@kinds
def test_a_query_that_sees_nothing_gives_zeros(device, kind):
    segments_q, segments_k = np.array([[1] * 4 + [5] * 5], np.int32), np.full((1, 9), 1, np.int32)
    out, dq, _, _ = check(device, AttentionRule(0.25, segments=True), operands(1, 9, 9, 2, 2, 16), [segments_q, segments_k], kind=kind)
    assert (out[:, 4:] == 0).all() and (dq[:, 4:] == 0).all()


@kinds
@pytest.mark.parametrize("offsets", [[0, 20], [-4, 31], [-40, 3]])
def test_query_offsets_of_a_cache(device, kind, offsets):
    rule = AttentionRule(0.25, window=9, offset=True)
    check(device, rule, operands(2, 5, 32, 2, 1, 16), [np.array(offsets, np.int32)], kind=kind)


@kinds
def test_strided_views_of_a_fused_projection(device, kind):
    fused = normal(2, 19, 4 + 2 + 2, 16)
    q, k, v = fused[:, :, :4], fused[:, :, 4:6], fused[:, :, 6:]
    strided = check(device, AttentionRule(0.25), (q, k, v), kind=kind)[0]
    dense = run_op(device, Attention(AttentionRule(0.25)), *map(np.ascontiguousarray, (q, k, v)), profile=PROFILES[kind])[0]
    assert (strided == dense).all()


@kinds
def test_heads_before_time_and_odd_starts(device, kind):
    base = normal(2, 3, 19, 17)                                                   # [B,H,T,D], channels 1..16: no row is aligned
    views = [base[..., 1:].transpose(0, 2, 1, 3)] * 3
    check(device, AttentionRule(0.25), views, kind=kind)


@kinds
def test_strided_gradients_of_the_output(device, kind):
    q, k, v = operands(1, 9, 9, 2, 2, 16)
    op, dout = AttentionBackward(AttentionRule(0.25)), normal(1, 2, 9, 16).transpose(0, 2, 1, 3)
    out, lse = Attention(op.rule).reference([q, k, v])
    dense, strided = (run_op(device, op, q, k, v, out, lse, d, profile=PROFILES[kind]) for d in (np.ascontiguousarray(dout), dout))
    assert all((a == b).all() for a, b in zip(dense, strided, strict=True))


@kinds
def test_dropout_keeps_what_the_twin_keeps(device, kind):
    seed = np.array([7, 0xDEADBEEF], np.uint32)
    rule = AttentionRule(0.25, dropout=0.3, stream=5)
    check(device, rule, operands(2, 13, 18, 4, 2, 16), [seed], kind=kind)


@kinds
def test_dropout_in_forward_and_backward_is_the_same_mask(device, kind):
    size, rule, seed = 64, AttentionRule(1.0, causal=False, dropout=0.25), np.array([1, 2], np.uint32)
    q = k = np.zeros((1, size, 1, 8), np.float32)
    unit = np.eye(size, dtype=np.float32)[None, :, None]
    out, lse = run_op(device, Attention(rule), q, k, unit, seed, profile=PROFILES[kind])
    dv = run_op(device, AttentionBackward(rule), q, k, unit, out, lse, unit, seed, profile=PROFILES[kind])[2]
    mask = kept(rule, AttentionShape.of(q.shape, k.shape, unit.shape), seed)[0, 0]
    assert ((out[0, :, 0] > 0) == mask).all() and ((dv[0, :, 0].T > 0) == mask).all()
    assert abs(mask.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / mask.size)         # four standard deviations
    close(out[0, :, 0], mask / (0.75 * size), "kept probabilities")


def test_dropout_depends_on_seed_and_stream():
    shape = AttentionShape.of((1, 8, 1, 4), (1, 8, 1, 4), (1, 8, 1, 4))
    masks = [kept(AttentionRule(1.0, dropout=0.5, stream=stream), shape, seed) for stream in (0, 1) for seed in ((1, 2), (1, 3), (2, 2))]
    assert len({mask.tobytes() for mask in masks}) == 6


BENT = {"softcap": AttentionRule(0.5, softcap=1.5), "slopes": AttentionRule(0.25, slopes=True),
        "both": AttentionRule(0.5, window=9, softcap=0.7, slopes=True)}


@kinds
@pytest.mark.parametrize("name", BENT)
def test_soft_caps_and_slopes(device, kind, name):
    slopes = [np.array([0.5, 0.25, 0.01, 3.0], np.float32)] if BENT[name].slopes else []
    check(device, BENT[name], operands(2, 19, 19, 4, 2, 16), slopes, kind=kind)


@kinds
def test_slopes_count_from_where_a_cache_stands(device, kind):
    rule, slopes = AttentionRule(0.25, offset=True, segments=True, softcap=2.0, slopes=True), np.array([0.3, 0.02], np.float32)
    segments = [np.ones((2, 3), np.int32), np.array([[0] * 5 + [1] * 60, [1] * 65], np.int32)]
    check(device, rule, operands(2, 3, 65, 2, 1, 16), [*segments, np.array([20, 61], np.int32), slopes], kind=kind)


def test_slopes_with_split_keys(device):
    profile = Profile(device_class="gpu", subgroup=8, shared_bytes=4096, compute_units=16)
    check(device, AttentionRule(0.25, slopes=True), operands(1, 1, 300, 2, 1, 16), [np.array([0.1, 0.004], np.float32)], profile=profile)


@pytest.mark.parametrize("profile", [None, SMALL_TILES, TALL_TILES], ids=["cpu", "small tiles", "tall tiles"])
def test_gradients_of_keys_add_up_to_nothing(device, profile):
    """The gradient of a key bias is 0 but for rounding: 3e-7 is left, and 1.3e-6 with that of delta, common to a row's keys."""
    q, k, v = operands(2, 65, 65, 4, 4, 32)
    v, rule = 0.1 * v + 1, AttentionRule(scale=32**-0.5)
    out, lse = run_op(device, Attention(rule), q, k, v, profile=profile)
    _, dk, _ = run_op(device, AttentionBackward(rule), q, k, v, out, lse, normal(*q.shape), profile=profile)
    left = np.sqrt(np.mean(dk.sum(axis=(0, 1), dtype=np.float64) ** 2))
    assert left <= 6e-7


@kinds
def test_large_scores_do_not_overflow(device, kind):
    q, k, v = operands(1, 9, 9, 2, 2, 16)
    rule = AttentionRule(1.0, causal=False)
    out = run_op(device, Attention(rule), q * 100, k * 100, v, profile=PROFILES[kind])[0]
    assert np.abs(out - Attention(rule).reference([exact(q * 100), exact(k * 100), exact(v)])[0]).max() < 1e-3


@kinds
def test_a_nan_is_not_hidden(device, kind):
    q, k, v = operands(1, 9, 9, 2, 2, 16)
    q[0, 4, 1, 3] = np.nan
    out = run_op(device, Attention(AttentionRule(1.0, causal=False)), q, k, v, profile=PROFILES[kind])[0]
    assert np.isnan(out[0, 4, 1]).all() and np.isfinite(out[0, :4]).all()


def test_few_queries_split_the_keys_between_multiprocessors(device):
    profile = Profile(device_class="gpu", subgroup=8, shared_bytes=4096, compute_units=16)
    qkv = operands(1, 1, 300, 2, 1, 16)
    launches = tiles_forward(AttentionRule(0.25), AttentionShape.of(*(a.shape for a in qkv)),
                             [Operand(a.shape, "f32", row_major(a.shape)) for a in qkv], profile).launches
    assert [launch.shader for launch in launches] == ["attention_tile", "attention_combine"]
    check(device, AttentionRule(0.25), qkv, profile=profile)
    check(device, AttentionRule(0.25, window=20), qkv, profile=profile)           # most splits see nothing


@pytest.mark.parametrize("width", [8, 32, 64, 80, 128, 256])
@pytest.mark.parametrize("shared_bytes", [16384, 32768, 49152, 65536])
def test_tiles_fit_shared_memory(width, shared_bytes):
    profile = Profile(device_class="gpu", subgroup=32, shared_bytes=shared_bytes, compute_units=132)
    for line_tiles, sums in ((1, (width,)), (2, (width, width))):
        tile = choose_tile(4096, 4096, 64, sums, line_tiles, profile)
        assert tile.shared_bytes(line_tiles) <= shared_bytes


@pytest.mark.parametrize("options", [{}, {"causal": False, "window": 2}, {"dropout": 0.4}, {"segments": True}, {"offset": True},
                                     {"softcap": 0.8}, {"slopes": True, "softcap": 0.5, "offset": True}], ids=str)
def test_derivatives_agree_with_differences(options):
    shapes = {"q": (2, 3, 4, 5), "k": (2, 4, 2, 5), "v": (2, 4, 2, 3)}
    feeds = {name: random.standard_normal(shape) for name, shape in shapes.items()} | {"weight": random.standard_normal((2, 3, 4, 3))}
    feeds |= {"sq": np.array([[1, 1, 2], [0, 3, 3]], np.int32), "sk": np.array([[1, 1, 2, 2], [0, 0, 3, 3]], np.int32),
              "seed": np.array([3, 4], np.uint32), "offset": np.array([0, 2], np.int32), "slopes": np.array([0.5, 0.1, 0.02, 1.0])}
    graph = attention_graph({**shapes, "weight": (2, 3, 4, 3)}, options)
    outputs = evaluate(graph, feeds, dtype="float64")[0]
    step = 1e-5
    for name, shape in shapes.items():
        direction = random.standard_normal(shape)
        ends = [evaluate(graph, feeds | {name: feeds[name] + sign * step * direction}, dtype="float64")[0]["loss"] for sign in (1, -1)]
        slope = float(ends[0] - ends[1]) / (2 * step)
        assert abs(slope - (outputs["d" + name] * direction).sum()) < 1e-7 * max(1, abs(slope))


def attention_graph(shapes, options) -> Graph:
    """loss = sum(weight * attention(q, k, v)) and its gradients, named dq, dk, dv."""
    graph = Graph()
    with tracing(graph):
        q, k, v, weight = (F.input(name, shape, "f32") for name, shape in shapes.items())
        extra = {"causal": options.get("causal", True), "window": options.get("window"), "dropout": options.get("dropout", 0.0),
                 "softcap": options.get("softcap")}
        sq, sk = F.input("sq", (2, 3), "i32"), F.input("sk", (2, 4), "i32")
        seed, offset = F.input("seed", (2,), "u32"), F.input("offset", (2,), "i32")
        if options.get("segments"):
            extra |= {"segments_q": sq, "segments_k": sk}
        slopes = F.input("slopes", (4,), "f32")
        if options.get("slopes"):
            extra["slopes"] = slopes
        if options.get("offset"):
            extra["query_offset"] = offset
        loss = F.sum(weight * F.attention(q, k, v, seed=seed, **extra), (0, 1, 2, 3), False)
        gradients = F.gradients(loss, [q, k, v])
        graph.outputs |= {"loss": loss, **dict(zip(("dq", "dk", "dv"), gradients, strict=True))}
    return graph


@pytest.mark.parametrize(("shapes", "options", "found"), [
    (((1, 4, 3, 8), (1, 4, 2, 8), (1, 4, 2, 8)), {}, "Hq a multiple of Hk"),
    (((1, 4, 2, 8), (1, 4, 2, 7), (1, 4, 2, 8)), {}, "do not fit"),
    (((1, 4, 8), (1, 4, 2, 8), (1, 4, 2, 8)), {}, "four axes"),
    (((1, 4, 2, 8), (1, 4, 2, 8), (1, 4, 2, 8)), {"window": 0}, "window=0"),
    (((1, 4, 2, 8), (1, 4, 2, 8), (1, 4, 2, 8)), {"dropout": 0.5}, "needs a seed"),
    (((1, 4, 2, 8), (1, 4, 2, 8), (1, 4, 2, 8)), {"softcap": 0.0}, "softcap=0.0"),
])
def test_operands_that_do_not_fit_are_named(shapes, options, found):
    with tracing(Graph()), pytest.raises(ShapeError, match=found):
        F.attention(*(F.input(name, shape, "f32") for name, shape in zip("qkv", shapes, strict=True)), **options)
