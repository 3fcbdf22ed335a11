"""Attention over cached keys and values, as decoding has it: rope, cache write and attention of one token in one launch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from hierarchos.kernels.launch import U32, Argument, In, Launch, Lowering, Operand, Out, Profile, Work
from hierarchos.kernels.rope import rope_reference

if TYPE_CHECKING:
    import numpy as np

NO_WINDOW = 0xFFFFFFFF
GPU_LOCAL = 256
MOST_PART = 512  # keys of one workgroup: their scores lie in shared memory
MOST_EARLY = 64  # channels of a key that an invocation keeps in registers
SHORT_PART = 256  # where the keys are split


@dataclass(frozen=True)
class CachedRule:
    """What a cached attention computes besides its operands. ring: position j lies in slot j mod S. rope: layout of the rotation that
    q and the new keys still need, or None. softcap and slopes as in AttentionRule. counted: of several tokens of a row some may be padding,
    which is not written."""

    scale: float
    window: int | None = None
    softcap: float | None = None
    slopes: bool = False
    ring: bool = False
    rope: str | None = None
    counted: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Inputs in order."""
        return (
            "q",
            "k",
            "v",
            "keys",
            "values",
            "offset",
            *(("count",) if self.ring or self.counted else ()),
            *(("slopes",) if self.slopes else ()),
            *(("cos", "sin", "positions") if self.rope else ()),
        )


def cached_attention_reference(rule: CachedRule, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """out [B,T,Hq,Dv] and both caches after the tokens were written."""
    import numpy as np

    named = dict(zip(rule.names, inputs, strict=True))
    q, k, v = named["q"], named["k"], named["v"]
    if rule.rope:
        q, k = (rope_reference(x, named["cos"], named["sin"], named["positions"], rule.rope, False) for x in (q, k))
    keys, values = (
        cache_write_reference(cache, rows, named["offset"], named.get("count"), rule.ring)
        for cache, rows in ((named["keys"], k), (named["values"], v))
    )
    out, slots, group = np.zeros((*q.shape[:3], v.shape[3]), q.dtype), keys.shape[1], q.shape[2] // k.shape[2]
    for b in range(q.shape[0]):
        for t in range(q.shape[1]):
            p = int(named["offset"][b]) + t
            seen = range(max(0, p - rule.window + 1) if rule.window else 0, p + 1 if rule.ring else min(p + 1, slots))
            chosen, distance = [j % slots if rule.ring else j for j in seen], p - np.array(seen)
            for h in range(q.shape[2]):
                s = (keys[b, chosen, h // group] @ q[b, t, h]) * q.dtype.type(rule.scale)
                s = s if rule.softcap is None else rule.softcap * np.tanh(s / rule.softcap)
                s = s - named["slopes"][h] * distance if rule.slopes else s
                weights = np.exp(s - s.max())
                out[b, t, h] = (weights / weights.sum()) @ values[b, chosen, h // group]
    return [out, keys, values]


def cache_write_reference(cache: np.ndarray, rows: np.ndarray, offset, count, ring: bool) -> np.ndarray:
    """The cache [B,S,...] with rows [B,T,...] at their slots; `count` of them in each row (None: all)."""
    result = cache.copy()
    for b in range(rows.shape[0]):
        for t in range(rows.shape[1] if count is None else min(int(count[b]), rows.shape[1])):
            slot = int(offset[b]) + t
            slot = slot % cache.shape[1] if ring else slot
            if slot < cache.shape[1]:
                result[b, slot] = rows[b, t]
    return result


def lower_cached_attention(rule: CachedRule, inputs: list[Operand], profile: Profile) -> Lowering:
    """One launch for one token a row, whose key it writes itself; else a write first. Two more where the keys are split."""
    index = {name: In(i) for i, name in enumerate(rule.names)}
    operands = dict(zip(rule.names, inputs, strict=True))
    fresh = operands["q"].shape[1] == 1
    assert fresh or "count" in rule.names, "several tokens need to know how many of them are padding"
    longest = min(rule.window or NO_WINDOW, operands["keys"].shape[1])
    part = longest if longest <= MOST_PART else SHORT_PART
    parts = -(-longest // part)
    launches = [] if fresh else [write_launch(rule, index, operands, profile)]
    (batch, times, heads, _), dv = operands["q"].shape, operands["v"].shape[3]
    rows = batch * times * heads
    outcome = Work(0, 4 * parts * rows * dv, read=False) if parts > 1 else Out(0)
    lse = Work(4 * parts * rows * dv, 4 * parts * rows, read=False) if parts > 1 else None
    launches.append(attend_launch(rule, index, operands, profile, part, parts, outcome, lse, fresh))
    if parts == 1:
        return Lowering(tuple(launches))
    end = 4 * parts * rows * (dv + 1)
    launches.append(
        Launch(
            "attention_combine",
            (-(-rows * dv // 128), 1, 1),
            (
                Work(0, 4 * parts * rows * dv, write=False),
                Work(4 * parts * rows * dv, 4 * parts * rows, write=False),
                Out(0),
                Work(end, 4 * rows, read=False),
                *map(U32, (batch, times, heads, dv, parts)),
            ),
            (128,),
            "attention combine",
        )
    )
    return Lowering(tuple(launches), end + 4 * rows)


def attend_launch(rule, index, operands, profile: Profile, part: int, parts: int, outcome, lse, fresh: bool) -> Launch:
    q, k, v = (operands[name] for name in "qkv")
    batch, times, heads, d = q.shape
    slots, key_heads = operands["keys"].shape[1:3]
    local = profile.subgroup if profile.device_class == "cpu" else GPU_LOCAL
    half, table = (operands["cos"].shape[1], operands["cos"].shape[0]) if rule.rope else (0, 1)
    early = profile.device_class == "gpu" and fresh and rule.window is None and not rule.ring and d % 4 == 0 and d <= MOST_EARLY
    ahead = d // 4 if early else 1
    constants = (
        local,
        local,
        times,
        slots,
        heads,
        key_heads,
        d,
        v.shape[3],
        NO_WINDOW if rule.window is None else rule.window,
        part,
        parts,
        fresh,
        half,
        rule.rope == "interleaved",
        table,
        float(rule.scale),
        float(rule.softcap or 0.0),
        *q.strides[:3],
        k.strides[0],
        k.strides[2],
        v.strides[0],
        v.strides[2],
        max(1, local // max(1, profile.subgroup // 4)),
        rule.ring,
        ahead,
    )
    assert all(o.strides[3] == 1 or o.shape[3] == 1 for o in (q, k, v)), "the channels of a head lie side by side"
    refs: tuple[Argument, ...] = (
        index["q"],
        index["k"],
        index["v"],
        Out(1, read=True),
        Out(2, read=True),
        index["offset"],
        index.get("slopes"),
        index.get("cos"),
        index.get("sin"),
        index.get("positions"),
        outcome,
        lse,
    )
    work = 2.0 * batch * times * heads * min(slots, part * parts) * (d + v.shape[3])
    return Launch("cached_attention", (heads * parts, times, batch), refs, constants, "cached attention", work, work)


def write_launch(rule, index, operands, profile: Profile) -> Launch:
    """Keys (rotated) and values of several tokens into their slots of a ring."""
    k, v, slots = operands["k"], operands["v"], operands["keys"].shape[1]
    (batch, times, heads, d), dv = k.shape, v.shape[3]
    total, local = batch * times * heads * (d + dv), 64 if profile.device_class == "cpu" else 128
    half, table = (operands["cos"].shape[1], operands["cos"].shape[0]) if rule.rope else (0, 1)
    groups = -(-total // local)
    y = -(-groups // profile.max_groups)
    refs = (
        index["k"],
        index["v"],
        Out(1, read=True),
        Out(2, read=True),
        index["offset"],
        index["count"],
        index.get("cos"),
        index.get("sin"),
        index.get("positions"),
    )
    numbers = (total, times, heads, d, dv, slots, *k.strides[:3], *v.strides[:3])
    return Launch(
        "cache_write",
        (-(-groups // y), y, 1),
        (*refs, *map(U32, numbers)),
        (local, rule.rope == "interleaved", table, half),
        "cache write",
        0.0,
        8.0 * prod(k.shape),
    )
