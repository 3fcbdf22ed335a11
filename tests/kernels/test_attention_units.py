"""Attention on matrix units with scores in registers: the choice of the kernels without a device, and their numbers where a device has such
units (fp32 operands as pairs of halves; halves themselves in test_half.py and validation.half_attention)."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchos.graph.binding import bind
from hierarchos.graph.matrix_layouts import layouts_of
from hierarchos.graph.ops.half import HalfAttention, HalfAttentionBackward
from hierarchos.graph.profile import profile_of
from hierarchos.kernels import attention_split, attention_units
from hierarchos.kernels.attention import attention, attention_backward
from hierarchos.kernels.attention_reference import attention_backward_reference, attention_reference
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.launch import Operand, Profile, row_major
from tests.kernels.test_matrix_layout import NVIDIA

UNITS = Profile("gpu", 32, 49152, compute_units=132, matrices=(("f16", 16, 16, 16), ("bf16", 16, 16, 16)),
                layouts=(("f16", NVIDIA), ("bf16", NVIDIA)))
SPLIT = ["attention_split"] * 3


def operand(*shape: int, dtype: str = "f32") -> Operand:
    return Operand(shape, dtype, row_major(shape))


def names(rule: AttentionRule, profile: Profile, heads: int = 4, key_heads: int = 2, length: int = 200, width: int = 64) -> list[str]:
    """Shaders of an attention of fp32 operands and of its gradients."""
    q, k = operand(2, length, heads, width), operand(2, length, key_heads, width)
    more = [operand(2)] if rule.offset else []
    launches = attention(rule, [q, k, k, *more], [], profile).launches
    launches += attention_backward(rule, [q, k, k, q, operand(2, heads, length), q, *more], [], profile).launches
    return [getattr(launch.shader, "name", launch.shader) for launch in launches]


def test_fp32_operands_are_split_where_the_device_allows_it():
    assert names(AttentionRule(0.125), UNITS) == [
        *SPLIT, "attention_units", "attention_delta_rows", *SPLIT, "attention_split", "attention_units_rows", "attention_units_keys",
        "attention_group_sum"]
    assert "attention_group_sum" not in names(AttentionRule(0.125), UNITS, key_heads=4)


@pytest.mark.parametrize("changed", [{"split": False}, {"layouts": ()}, {"device_class": "cpu"}, {"shared_bytes": 16384}])
def test_other_devices_keep_the_fp32_kernels(changed):
    assert not any("split" in name or "units" in name for name in names(AttentionRule(0.125), replace(UNITS, **changed)))


@pytest.mark.parametrize(("rule", "width", "length"), [
    (AttentionRule(0.125, softcap=30.0), 64, 200), (AttentionRule(0.125, dropout=0.1), 64, 200),
    (AttentionRule(0.125, slopes=True), 64, 200),
    (AttentionRule(0.125), 72, 200), (AttentionRule(0.125), 256, 200), (AttentionRule(0.125), 64, 128), (AttentionRule(0.125), 8, 200)])
def test_rules_and_shapes_that_they_do_not_know_keep_the_fp32_kernels(rule, width, length):
    shape = AttentionShape(2, length, length, 4, 2, width, width)
    inputs = [operand(2, length, heads, width) for heads in (4, 2, 2)]
    assert all(attention_split.usable(rule, shape, inputs, UNITS, backward) is None for backward in (False, True))


def test_wide_heads_are_split_in_the_forward_pass_only():
    found = names(AttentionRule(0.125), UNITS, width=128)
    assert found[3] == "attention_units" and "attention_block_keys" in found


def test_offsets_of_a_cache_are_known_in_the_forward_pass_only():
    found = names(AttentionRule(0.125, offset=True), UNITS)
    assert found[3] == "attention_units" and "attention_block_keys" in found


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("width", [16, 64, 128])
def test_halves_take_these_kernels_too(dtype, width):
    q, k, lse = (operand(2, 40, heads, width, dtype=dtype) for heads in (4, 2, 2))
    rule, lse = AttentionRule(0.1), operand(2, 4, 40)
    launches = HalfAttention(rule, format=dtype).lower([q, k, k], [q, lse], UNITS).launches
    launches += HalfAttentionBackward(rule, format=dtype).lower([q, k, k, q, lse, q], [q, k, k], UNITS).launches
    wanted = ["attention_units", "attention_half_delta", "attention_units_rows", "attention_units_keys"]
    assert [getattr(x.shader, "name", x.shader).removesuffix(" bf16") for x in launches] == wanted


@pytest.mark.parametrize(("kernel", "planes"), list(attention_units.UNITS))
def test_units_fit_the_device(kernel, planes):
    for unit, width in zip(attention_units.UNITS[kernel, planes], (64, 128), strict=False):
        assert unit.shared_bytes(width, planes, 16) <= 49152
        assert attention_split.BLOCK % unit.columns == 0 == unit.columns % 16 and unit.columns <= 32 * unit.subgroups


@given(st.integers(1, 130), st.integers(-60, 60), st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_two_halves_hold_an_operand_to_22_bits(lines, exponent, spread):
    random = np.random.default_rng(lines)
    x = (random.standard_normal((2, lines, 2, 8)) * np.exp2(exponent - spread * random.random((2, lines, 2, 8)))).astype(np.float32)
    high, low, undo = attention_split.split_lines(x)
    error = np.abs((high.astype(np.float64) + low) * undo - x)
    assert np.abs(high).max() <= 2.0**15 and np.array_equal(high, high.astype(np.float16))
    assert np.all(error <= np.maximum(2.0**-22 * np.abs(x), 2.0**-39 * np.abs(x).max()))


@pytest.fixture
def device_units(device):
    """A device whose matrix units suit these kernels, and its profile."""
    profile = replace(profile_of(device), device_class="gpu", exact_below=0)
    profile = replace(profile, layouts=layouts_of(device, profile))
    if "f16" not in dict(profile.layouts):
        pytest.skip("the device has no matrix units of float16 that these kernels can use")
    return device, profile


class Memory:
    """Arrays on a device for one lowering after another."""

    def __init__(self, device):
        self.device, self.kept = device, []

    def place(self, array: np.ndarray):
        block = self.device.allocate(max(array.nbytes, 256), "test")
        self.device.upload(block.address, np.ascontiguousarray(array))
        self.kept.append(block)
        return block.address, operand(*array.shape, dtype="i32" if array.dtype == np.int32 else "f32")

    def run(self, lowering, inputs, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
        outputs = [self.place(np.full(shape, 7, np.float32)) for shape in shapes]
        workspace, _ = self.place(np.full(lowering.workspace // 4 + 64, np.nan, np.float32))
        self.device.record(bind(lowering, inputs, outputs, workspace)).run()
        return [np.frombuffer(bytes(self.device.download(address, o.nbytes)), np.float32).reshape(o.shape) for address, o in outputs]

    def free(self) -> None:
        for block in self.kept:
            block.free()


def computed(device_units, rule: AttentionRule, q, k, v, g, optional) -> list[np.ndarray]:
    """out, lse, dq, dk, dv by the kernels."""
    device, profile = device_units
    memory, shape = Memory(device), AttentionShape.of(q.shape, k.shape, v.shape)
    qkv, more = [memory.place(x) for x in (q, k, v)], [memory.place(x) for x in optional.values()]
    inputs = [o for _, o in qkv]
    forward, backward = (attention_split.usable(rule, shape, inputs, profile, b) for b in (False, True))
    assert forward and backward
    lowering = attention_split.split_forward(rule, shape, inputs, forward, profile)
    out, lse = memory.run(lowering, [*qkv, *more], [q.shape, (shape.batch, shape.heads, shape.queries)])
    bound = [*qkv, memory.place(out), memory.place(lse), memory.place(g), *more]
    lowering = attention_split.split_backward(rule, shape, [o for _, o in bound], backward, profile)
    gradients = memory.run(lowering, bound, [q.shape, k.shape, v.shape])
    memory.free()
    return [out, lse, *gradients]


@pytest.mark.parametrize("units", [(2, 16, 1), (2, 16, 2)], ids=["one buffer", "two buffers"])
@pytest.mark.parametrize(("queries", "keys", "heads", "key_heads", "rule", "spread"), [
    (35, 35, 2, 1, AttentionRule(0.25), 0), (70, 90, 2, 2, AttentionRule(0.25, segments=True), 0),
    (50, 50, 1, 1, AttentionRule(0.25, window=9), 0), (40, 37, 1, 1, AttentionRule(0.25, causal=False), 12)])
def test_errors_are_those_of_fp32(device_units, monkeypatch, queries, keys, heads, key_heads, rule, spread, units):
    monkeypatch.setattr(attention_split, "FEWEST_LINES", 1)
    monkeypatch.setattr(attention_units, "UNITS", {(k, 2): (attention_units.Unit(*units),) for k in ("forward", "rows", "keys")})
    random = np.random.default_rng(queries)

    def drawn(lines: int, count: int) -> np.ndarray:
        shape = (2 if rule.segments else 1, lines, count, 16)
        return (random.standard_normal(shape) * np.exp2(-spread * random.random(shape))).astype(np.float32)
    arrays = [drawn(queries, heads), drawn(keys, key_heads), drawn(keys, key_heads), drawn(queries, heads)]
    optional = {name: np.sort(random.integers(0, 3, (2, count)), 1).astype(np.int32)
                for name, count in (("segments_q", queries), ("segments_k", keys))} if rule.segments else {}
    got = computed(device_units, rule, *arrays, optional)
    truth, plain = (twin(rule, [x.astype(kind) for x in arrays], optional) for kind in (np.float64, np.float32))
    for name, ours, exact, theirs in zip(("out", "lse", "dq", "dk", "dv"), got, truth, plain, strict=True):
        seen = np.abs(exact) < 1e30
        size, mine, usual = (np.sqrt((x[seen].astype(np.float64) ** 2).mean()) for x in (exact, ours - exact, theirs - exact))
        assert mine <= max(1.5 * usual, 2e-7 * size), name
        assert np.array_equal(ours[~seen], exact[~seen].astype(np.float32))


def twin(rule: AttentionRule, arrays: list[np.ndarray], optional) -> list[np.ndarray]:
    q, k, v, g = arrays
    out, lse = attention_reference(rule, q, k, v, optional)
    return [out, lse, *attention_backward_reference(rule, q, k, v, out, lse, g, optional)]
