"""Attention with grouped queries, optional per-head norms, rotary positions, sliding windows and a cache."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.nn.batch import Batch
from hierarchos.nn.dropout import stream_of
from hierarchos.nn.rotary import Rope, rope_tables
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class Heads:
    """Query heads, key heads (query heads are a multiple of them) and the width of one head."""

    queries: int
    keys: int
    width: int


def rotation(rope: Rope, batch: Batch):
    """A function x [B,T,H,D] -> x rotated by the batch's positions; the tables are shared by all layers."""
    cos, sin = rope_tables(rope, batch.max_positions)
    return partial(_rotate, cos=F.constant(cos), sin=F.constant(rope.sign * sin), positions=batch.positions, layout=rope.layout)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, layout: str) -> Tensor:
    return F.rope(x, cos, sin, positions, layout)


def unrotated(x: Tensor) -> Tensor:
    """In place of a rotation, where positions do not enter the layer."""
    return x


def split_heads(x: Tensor, heads: int, width: int) -> Tensor:
    """[B,T,heads*width] -> [B,T,heads,width]."""
    return F.reshape(x, (*x.shape[:2], heads, width))


def attend(w: Weights, batch: Batch, q: Tensor, k: Tensor, v: Tensor, *, window=None, scale=None, dropout: float = 0.0) -> Tensor:
    """Causal attention of q [B,T,Hq,D] over k, v [B,T,Hk,D] and the cache: [B,T,Hq*D].

    scale None means width^-0.5; window counts keys, the query's own among them; dropout acts only in training."""
    segments, offset = batch.segments, None
    if batch.cache:
        k, v = batch.cache.extend(w.prefix, k, v)
        segments, offset = batch.cache.segments, batch.cache.query_offset
    random = {"dropout": dropout, "seed": batch.seed, "stream": stream_of(w.name("attention"))} if batch.training and dropout else {}
    mixed = F.attention(q, k, v, batch.segments, segments, causal=True, window=window, scale=scale, query_offset=offset, **random)
    return F.reshape(mixed, (*q.shape[:2], q.shape[2] * q.shape[3]))


def self_attention(w: Weights, x: Tensor, batch: Batch, heads: Heads, rotate, *, window=None, qkv_bias=False, output_bias=False,
                   head_norm_eps: float | None = None, dropout: float = 0.0) -> Tensor:
    """q_proj, k_proj, v_proj, optional q_norm and k_norm on each head, rotation, attention, o_proj: [B,T,D] -> [B,T,D]."""
    q = split_heads(w.linear("q_proj", x, heads.queries * heads.width, qkv_bias), heads.queries, heads.width)
    k = split_heads(w.linear("k_proj", x, heads.keys * heads.width, qkv_bias), heads.keys, heads.width)
    v = split_heads(w.linear("v_proj", x, heads.keys * heads.width, qkv_bias), heads.keys, heads.width)
    if head_norm_eps is not None:
        q, k = w.rms_norm("q_norm", q, head_norm_eps), w.rms_norm("k_norm", k, head_norm_eps)
    mixed = attend(w, batch, rotate(q), rotate(k), v, window=window, dropout=dropout)
    return w.linear("o_proj", mixed, x.shape[-1], output_bias)
