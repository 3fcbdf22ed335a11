"""The attention kernels for GPUs with large tiles against their NumPy twin in float64; tolerance as in test_attention.py."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hierarchos.graph.ops.attention import Attention, AttentionBackward
from hierarchos.kernels.attention import attention, attention_backward
from hierarchos.kernels.attention_blocks import choose_block
from hierarchos.kernels.attention_rule import AttentionRule
from hierarchos.kernels.launch import Operand, Profile, row_major
from tests.kernels.test_attention import SMALL_TILES, check, close, normal, operands
from tests.support import run_op

SMALL = Profile(device_class="gpu", subgroup=8, shared_bytes=28672, compute_units=1)     # short stages: they compile faster on a CPU driver
PLAIN = replace(SMALL, exact_below=0)
H200 = Profile(device_class="gpu", subgroup=32, shared_bytes=49152, compute_units=132)


def shaders(profile: Profile, *shape: int) -> list[str]:
    """Names of what computes an attention of (batch, queries, keys, heads, key heads, width) and its gradients."""
    batch, queries, keys, heads, key_heads, width = shape
    q, k = ((batch, n, h, width) for n, h in ((queries, heads), (keys, key_heads)))
    inputs = [Operand(s, "f32", row_major(s)) for s in (q, k, k)]
    rule = AttentionRule(1.0)
    launches = attention(rule, inputs, [], profile).launches + attention_backward(rule, [*inputs, *inputs], [], profile).launches
    return [launch.shader for launch in launches]


def block_check(device, rule: AttentionRule, qkv, optional=(), profile=SMALL):
    if profile.shared_bytes > device.info.shared_bytes:
        pytest.skip(f"needs {profile.shared_bytes} bytes of shared memory; the device has {device.info.shared_bytes}")
    used = shaders(profile, qkv[0].shape[0], qkv[0].shape[1], qkv[1].shape[1], qkv[0].shape[2], qkv[1].shape[2], qkv[0].shape[3])
    assert used[0] == "attention_block" and {"attention_block_rows", "attention_block_keys"} < set(used)
    return check(device, rule, qkv, optional, profile=profile)


@pytest.mark.parametrize(("queries", "keys"), [(33, 33), (65, 40), (130, 150)])
@pytest.mark.parametrize("profile", [SMALL, PLAIN], ids=["compensated sums", "plain sums"])
def test_causal_attention_of_any_length(device, queries, keys, profile):
    block_check(device, AttentionRule(0.25), operands(1, queries, keys, 2, 2, 16), profile=profile)


@pytest.mark.parametrize(("width", "shared_bytes"), [(40, 28672), (72, 32768), (128, 49152)])
def test_any_head_width(device, width, shared_bytes):
    block_check(device, AttentionRule(width**-0.5), operands(1, 40, 40, 1, 1, width), profile=replace(SMALL, shared_bytes=shared_bytes))


def test_values_of_another_width(device):
    block_check(device, AttentionRule(0.3), operands(2, 40, 40, 2, 1, 12, 40))


@pytest.mark.parametrize("compute_units", [1, 16], ids=["keys", "query heads apart"])
def test_grouped_queries(device, compute_units):
    profile = replace(SMALL, compute_units=compute_units)
    assert ("attention_group_sum" in shaders(profile, 2, 50, 70, 6, 2, 16)) == (compute_units > 1)
    block_check(device, AttentionRule(0.25), operands(2, 50, 70, 6, 2, 16), profile=profile)


@pytest.mark.parametrize(("causal", "window"), [(True, 50), (False, 50)])
def test_windows(device, causal, window):
    block_check(device, AttentionRule(0.25, causal, window), operands(1, 140, 150, 1, 1, 16))


def test_segments(device):
    line = [0] * 9 + [1] * 61 + [2] * 30
    segments = np.array([line, line[::-1]], np.int32)
    block_check(device, AttentionRule(0.25, segments=True), operands(2, 100, 100, 2, 2, 16), [segments, segments])


def test_a_query_that_sees_nothing_gives_zeros(device):
    segments_q, segments_k = np.array([[1] * 14 + [5] * 50], np.int32), np.full((1, 64), 1, np.int32)
    out, dq, _, _ = block_check(device, AttentionRule(0.25, segments=True), operands(1, 64, 64, 2, 2, 16), [segments_q, segments_k])
    assert (out[:, 14:] == 0).all() and (dq[:, 14:] == 0).all()


@pytest.mark.parametrize("offsets", [[0, 20], [-40, 31], [-100, 90]])
def test_query_offsets_of_a_cache(device, offsets):
    rule = AttentionRule(0.25, window=70, offset=True)
    block_check(device, rule, operands(2, 35, 132, 2, 1, 16), [np.array(offsets, np.int32)])


def test_strided_views_of_a_fused_projection(device):
    fused = normal(2, 70, 4 + 2 + 2, 16)
    q, k, v = fused[:, :, :4], fused[:, :, 4:6], fused[:, :, 6:]
    strided = block_check(device, AttentionRule(0.25), (q, k, v))[0]
    dense = run_op(device, Attention(AttentionRule(0.25)), *map(np.ascontiguousarray, (q, k, v)), profile=SMALL)[0]
    assert (strided == dense).all()


def test_heads_before_time_and_odd_starts(device):
    base = normal(2, 3, 40, 17)                                                   # [B,H,T,D], channels 1..16: no row is aligned
    block_check(device, AttentionRule(0.25), [base[..., 1:].transpose(0, 2, 1, 3)] * 3)


def test_dropout_keeps_what_the_twin_keeps(device):
    block_check(device, AttentionRule(0.25, dropout=0.3, stream=5), operands(2, 43, 78, 4, 2, 16), [np.array([7, 0xDEADBEEF], np.uint32)])


@pytest.mark.parametrize("profile", [SMALL, PLAIN], ids=["compensated sums", "plain sums"])
def test_soft_caps_and_slopes(device, profile):
    rule, slopes = AttentionRule(0.5, window=60, softcap=0.7, slopes=True), np.array([0.05, 0.25, 0.01, 0.3], np.float32)
    block_check(device, rule, operands(2, 70, 70, 4, 2, 16), [slopes], profile=profile)


@pytest.mark.parametrize("profile", [SMALL, PLAIN], ids=["compensated sums", "plain sums"])
def test_gradients_of_keys_add_up_to_nothing(device, profile):
    """As in test_attention.py: 3e-7 is left without the rounding of delta."""
    q, k, v = operands(2, 65, 65, 4, 4, 32)
    dk = check(device, AttentionRule(scale=32**-0.5), (q, k, 0.1 * v + 1), profile=profile)[2]
    assert np.sqrt(np.mean(dk.sum(axis=(0, 1), dtype=np.float64) ** 2)) <= 6e-7


@pytest.mark.parametrize("profile", [SMALL, SMALL_TILES], ids=["blocks", "tiles"])
def test_probabilities_of_small_attentions_add_up_to_one_in_the_backward_pass(device, profile):
    """So the gradients of all values add up to those of all outputs, but for 1e-8; the rounding of the log-sum-exp would leave 2.6e-8."""
    q, k, v = operands(2, 67, 67, 4, 4, 16)
    rule, dout, left = AttentionRule(0.25, causal=False), 1 + 0.1 * normal(2, 67, 4, 16), []
    for used in (profile, replace(profile, exact_below=0)):
        out, lse = run_op(device, Attention(rule), q, k, v, profile=used)
        _, _, dv = run_op(device, AttentionBackward(rule), q, k, v, out, lse, dout, profile=used)
        left.append(np.square(dv.sum(axis=1, dtype=np.float64) / dout.sum(axis=1, dtype=np.float64) - 1).mean())
    assert left[0] < 0.7**2 * left[1]


@pytest.mark.parametrize("profile", [SMALL, SMALL_TILES], ids=["blocks", "tiles"])
def test_equal_keys_share_the_gradient_of_values_where_scores_are_large(device, profile):
    """The log-sum-exp of two scores of 2^25 is rounded to 2^25: each probability comes out as 1."""
    q, k = np.full((1, 40, 1, 8), 2048, np.float32), np.zeros((1, 40, 1, 8), np.float32)
    k[0, [3, 30]] = 2048
    v, dout, rule = normal(1, 40, 1, 8), normal(1, 40, 1, 8), AttentionRule(1.0, causal=False)
    out, lse = run_op(device, Attention(rule), q, k, v, profile=profile)
    _, _, dv = run_op(device, AttentionBackward(rule), q, k, v, out, lse, dout, profile=profile)
    expected = np.zeros_like(dv)
    expected[0, [3, 30]] = dout.sum(1) / 2
    np.testing.assert_allclose(dv, expected, atol=1e-5)


@pytest.mark.parametrize("profile", [None, SMALL, PLAIN, SMALL_TILES], ids=["cpu", "blocks", "blocks, plain sums", "tiles"])
def test_what_keys_have_in_common_does_not_enter_the_gradients_of_queries(device, profile):
    """With it they are off by 2e-4 to 4e-4 here, without it by 3e-6 to 6e-6."""
    q, k, v = operands(2, 65, 65, 4, 4, 16)
    k, v, rule, dout = k + 30, 0.1 * v + 1, AttentionRule(0.02, causal=False), normal(2, 65, 4, 16)
    out, lse = run_op(device, Attention(rule), q, k, v, profile=profile)
    dq, _, _ = run_op(device, AttentionBackward(rule), q, k, v, out, lse, dout, profile=profile)
    exact = [x.astype(np.float64) for x in (q, k, v)]
    truth = AttentionBackward(rule).reference([*exact, *Attention(rule).reference(exact), dout.astype(np.float64)])[0]
    assert np.square(dq - truth).mean() <= 2e-5**2 * np.square(truth).mean()


def test_large_scores_do_not_overflow(device):
    q, k, v = operands(1, 40, 40, 2, 2, 16)
    rule = AttentionRule(1.0, causal=False)
    out = run_op(device, Attention(rule), q * 100, k * 100, v, profile=SMALL)[0]
    truth = Attention(rule).reference([(q * 100).astype(np.float64), (k * 100).astype(np.float64), v.astype(np.float64)])[0]
    assert np.abs(out - truth).max() < 1e-3


def test_a_nan_is_not_hidden(device):
    q, k, v = operands(1, 40, 40, 2, 2, 16)
    q[0, 4, 1, 3] = np.nan
    out = run_op(device, Attention(AttentionRule(1.0, causal=False)), q, k, v, profile=SMALL)[0]
    assert np.isnan(out[0, 4, 1]).all() and np.isfinite(out[0, :4]).all()


def test_few_rows_split_the_keys_between_multiprocessors(device):
    profile = replace(SMALL, compute_units=16)
    qkv = operands(1, 40, 600, 2, 2, 16)
    assert shaders(profile, 1, 40, 600, 2, 2, 16)[:2] == ["attention_block", "attention_combine"]
    close(check(device, AttentionRule(0.25), qkv, profile=profile)[0], check(device, AttentionRule(0.25), qkv, profile=SMALL)[0], "split")
    check(device, AttentionRule(0.25, window=20), qkv, profile=profile)           # most splits see nothing


def test_the_same_bits_each_time(device):
    qkv = operands(1, 130, 130, 2, 1, 32)
    first, second = (run_op(device, Attention(AttentionRule(0.2)), *qkv, profile=SMALL) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(("shape", "used"), [
    ((1, 2048, 2048, 16, 16, 64), "attention_block"), ((4, 512, 512, 9, 3, 64), "attention_block"),
    ((8, 128, 128, 8, 8, 32), "attention_block"), ((1, 1, 2048, 32, 4, 64), "attention_tile"), ((1, 64, 64, 4, 4, 256), "attention_tile")])
def test_which_kernels_take_a_shape(shape, used):
    assert shaders(H200, *shape)[0] == used


@pytest.mark.parametrize("deep", [32, 64, 96, 128])
@pytest.mark.parametrize("kernel", ["forward", "rows", "keys"])
@pytest.mark.parametrize("shared_bytes", [32768, 49152, 65536])
def test_blocks_fit_shared_memory(deep, kernel, shared_bytes):
    block = choose_block(kernel, deep, replace(H200, shared_bytes=shared_bytes))
    if (deep, kernel, shared_bytes) == (128, "forward", 32768):
        assert block is None
    else:
        weights = {"rows": 1, "keys": 2}
        assert (block.forward_bytes if kernel == "forward" else block.backward_bytes(weights[kernel])) <= shared_bytes
