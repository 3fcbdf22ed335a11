"""Attention over a cache: rope, write and attention in one launch, windows in rings, parts of long caches; against the NumPy twin."""

import numpy as np
import pytest

from hierarchos.graph.ops.cached_attention import CachedAttention
from hierarchos.kernels.cached_attention import CachedRule
from tests.support import run_op

RNG = np.random.default_rng(4)


def arrays_of(rule, batch, times, heads, key_heads, d, dv, slots, offset, count=None):
    def numbers(*shape):
        return RNG.standard_normal(shape).astype(np.float32)

    angles = RNG.random((40, d // 4)) * 6
    positions = np.minimum(np.array(offset)[:, None] + np.arange(times), 39).astype(np.int32)
    named = {
        "q": numbers(batch, times, heads, d),
        "k": numbers(batch, times, key_heads, d),
        "v": numbers(batch, times, key_heads, dv),
        "keys": numbers(batch, slots, key_heads, d),
        "values": numbers(batch, slots, key_heads, dv),
        "offset": np.array(offset, np.int32),
        "count": np.array(count or [times] * batch, np.int32),
        "slopes": np.abs(numbers(heads)),
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
        "positions": positions,
    }
    return [named[name] for name in rule.names]


def check(device, rule, *sizes, **more):
    arrays, op = arrays_of(rule, *sizes, **more), CachedAttention(rule)
    expected = op.reference([a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays])
    for found, wanted in zip(run_op(device, op, *[a.copy() for a in arrays]), expected, strict=True):
        assert np.abs(found - wanted).max() < 3e-6 * max(1, np.abs(wanted).max())


@pytest.mark.parametrize(
    "rule",
    [
        CachedRule(0.3),
        CachedRule(0.3, rope="half"),
        CachedRule(0.3, rope="interleaved", softcap=2.0),
        CachedRule(0.3, slopes=True),
        CachedRule(0.3, window=5),
    ],
    ids=str,
)
def test_one_token(device, rule):
    check(device, rule, 2, 1, 4, 2, 16, 16, 24, [7, 0])


def test_odd_widths_and_a_value_width_of_its_own(device):
    check(device, CachedRule(0.3), 1, 1, 3, 1, 12, 6, 9, [4])
    check(device, CachedRule(0.3), 1, 1, 2, 2, 10, 7, 9, [8])


@pytest.mark.parametrize("offset", [[0, 3], [9, 25]])
def test_a_ring_keeps_its_window(device, offset):
    check(device, CachedRule(0.3, window=6, ring=True, rope="half"), 2, 1, 4, 2, 16, 16, 10, offset)
    check(device, CachedRule(0.3, window=6, ring=True, rope="half"), 2, 4, 4, 2, 16, 16, 10, offset, count=[4, 2])


def test_long_caches_are_split(device):
    check(device, CachedRule(0.3), 1, 1, 2, 1, 16, 16, 1000, [900])
    check(device, CachedRule(0.3), 2, 1, 2, 1, 16, 16, 700, [40, 699])
