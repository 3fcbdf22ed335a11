"""NumPy twins of the attention kernels: they store the scores, and compute in the dtype of their inputs."""
from __future__ import annotations

from typing import TYPE_CHECKING

from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape

if TYPE_CHECKING:
    import numpy as np

NEGLIGIBLE = -3.0e38                                # log-sum-exp of a query that sees nothing


def distances(shape: AttentionShape, optional: dict[str, np.ndarray]) -> np.ndarray:
    """i64 [B,T,S]: how far each key lies behind each query."""
    import numpy as np

    offset = optional.get("query_offset")
    offset = np.full(shape.batch, shape.keys - shape.queries) if offset is None else offset.astype(np.int64)
    return offset[:, None, None] + np.arange(shape.queries)[None, :, None] - np.arange(shape.keys)[None, None, :]


def visible(rule: AttentionRule, shape: AttentionShape, optional: dict[str, np.ndarray]) -> np.ndarray:
    """bool [B,T,S]: which keys each query sees."""
    import numpy as np

    distance = distances(shape, optional)
    seen = np.ones((shape.batch, shape.queries, shape.keys), bool)
    if rule.causal:
        seen &= distance >= 0
    if rule.window is not None:
        seen &= abs(distance) < rule.window
    if rule.segments:
        seen &= optional["segments_q"][:, :, None] == optional["segments_k"][:, None, :]
    return seen


def kept(rule: AttentionRule, shape: AttentionShape, seed: np.ndarray) -> np.ndarray:
    """bool [B,Hq,T,S]: which probabilities dropout keeps. Score row n = (b Hq + h) T + i draws its key j from word j % 4 of
    Philox block n ceil(S / 4) + j // 4."""
    import numpy as np

    from hierarchos.kernels.random import keep_threshold, philox_reference

    rows, quads = shape.batch * shape.heads * shape.queries, -(-shape.keys // 4)
    block = np.arange(rows * quads, dtype=np.uint64)
    counter = [block & np.uint64(0xFFFFFFFF), np.full_like(block, rule.stream), block >> np.uint64(32), np.zeros_like(block)]
    bits = np.stack(philox_reference(counter, (int(seed[0]), int(seed[1]))), axis=-1).reshape(rows, 4 * quads)[:, :shape.keys]
    return (bits >= np.uint32(keep_threshold(rule.dropout))).reshape(shape.batch, shape.heads, shape.queries, shape.keys)


def scores(rule: AttentionRule, shape: AttentionShape, q, k, optional) -> tuple[np.ndarray, np.ndarray, np.ndarray | float]:
    """Scores [B,Hq,T,S], the mask [B,1,T,S] of what is seen, and the derivative of the scores by q k."""
    import numpy as np

    seen, slope = visible(rule, shape, optional)[:, None], q.dtype.type(rule.scale)
    score = np.einsum("bthd,bshd->bhts", q, np.repeat(k, shape.group, axis=2)) * slope
    if rule.softcap is not None:
        bent = np.tanh(score / q.dtype.type(rule.softcap))
        score, slope = bent * q.dtype.type(rule.softcap), slope * (1 - bent * bent)
    if rule.slopes:
        score = score - optional["slopes"].astype(q.dtype)[None, :, None, None] * distances(shape, optional)[:, None].astype(q.dtype)
    return score, seen, slope


def attention_reference(rule: AttentionRule, q, k, v, optional: dict[str, np.ndarray]) -> list[np.ndarray]:
    """out [B,T,Hq,Dv] and the log-sum-exp of the visible scores [B,Hq,T]; a query that sees nothing gives zeros."""
    import numpy as np

    shape = AttentionShape.of(q.shape, k.shape, v.shape)
    score, seen, _ = scores(rule, shape, q, k, optional)
    some = seen.any(-1, keepdims=True)
    top = np.where(some, np.where(seen, score, -np.inf).max(-1, keepdims=True, initial=-np.inf), 0)
    weight = np.where(seen, np.exp(np.where(seen, score - top, 0)), 0)
    total = weight.sum(-1, keepdims=True)
    lse = np.where(some, top + np.log(np.where(some, total, 1)), NEGLIGIBLE)[..., 0].astype(q.dtype)
    probability = (weight / np.where(some, total, 1)).astype(q.dtype)
    if rule.dropout > 0:
        probability = np.where(kept(rule, shape, optional["seed"]), probability / q.dtype.type(1 - rule.dropout), 0)
    out = np.einsum("bhts,bshd->bthd", probability, np.repeat(v, shape.group, axis=2))
    return [out.astype(q.dtype), lse]


def attention_backward_reference(rule: AttentionRule, q, k, v, out, lse, dout, optional: dict[str, np.ndarray]) -> list[np.ndarray]:
    """dq, dk, dv. With p = exp(score - lse), dp = dropout(dout v^T), delta = sum(dout out): ds = p (dp - delta).
    A soft cap bends the scores: their derivative by q k is scale (1 - tanh^2) in place of scale.

    dk uses a delta without its rounding: with what the row of ds adds up to, which would be 0, put back."""
    import numpy as np

    shape = AttentionShape.of(q.shape, k.shape, v.shape)
    score, seen, slope = scores(rule, shape, q, k, optional)
    probability = np.where(seen, np.exp(np.where(seen, score - lse[..., None], 0)), 0).astype(q.dtype)
    dprobability = np.einsum("bthd,bshd->bhts", dout, np.repeat(v, shape.group, axis=2))
    dropped = probability
    if rule.dropout > 0:
        factor = np.where(kept(rule, shape, optional["seed"]), q.dtype.type(1 / (1 - rule.dropout)), q.dtype.type(0))
        dropped, dprobability = probability * factor, dprobability * factor
    delta = (dout * out).sum(-1).transpose(0, 2, 1)[..., None]
    dscore = probability * (dprobability - delta)
    dq = np.einsum("bhts,bshd->bthd", dscore * slope, np.repeat(k, shape.group, axis=2))
    dscore = probability * (dprobability - (delta + dscore.sum(-1, keepdims=True))) * slope
    dk = np.einsum("bhts,bthd->bshd", dscore, q)
    dv = np.einsum("bhts,bthd->bshd", dropped, dout)
    return [dq.astype(q.dtype), sum_groups(dk, shape).astype(q.dtype), sum_groups(dv, shape).astype(q.dtype)]


def sum_groups(gradient: np.ndarray, shape: AttentionShape) -> np.ndarray:
    """[B,S,Hq,D] -> [B,S,Hk,D]: what the query heads of a group give to their key head."""
    batch, keys, _, width = gradient.shape
    return gradient.reshape(batch, keys, shape.key_heads, shape.group, width).sum(3)
