"""Attention with grouped queries, optional per-head norms, rotary positions, sliding windows and a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.nn.batch import Batch
from hierarchos.nn.dropout import stream_of
from hierarchos.nn.rope_scaling import LongRope
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
    cos, sin = (F.constant(table) for table in _signed_tables(rope, batch))
    if isinstance(rope.scaling, LongRope) and batch.max_positions > rope.scaling.original:
        length = F.max(F.cast(batch.positions, "f32"), (0, 1), keepdims=True) + 1.0
        is_long, short = F.gt(length, float(rope.scaling.original)), _signed_tables(rope, batch, length=1)
        cos, sin = (F.where(is_long, long, F.constant(table)) for long, table in zip((cos, sin), short, strict=True))
    return partial(_rotate, cos=cos, sin=sin, positions=batch.positions, layout=rope.layout)


def rotations(ropes: Sequence[Rope | None], batch: Batch) -> list:
    """The rotation of each layer; equal ropes share their tables. None: positions do not enter the layer."""
    made = {rope: rotation(rope, batch) if rope else unrotated for rope in dict.fromkeys(ropes)}
    return [made[rope] for rope in ropes]


def _signed_tables(rope: Rope, batch: Batch, length: int | None = None):
    cos, sin = rope_tables(rope, batch.max_positions, length)
    return cos, rope.sign * sin


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, layout: str) -> Tensor:
    return F.rope(x, cos, sin, positions, layout)


def unrotated(x: Tensor) -> Tensor:
    """In place of a rotation, where positions do not enter the layer."""
    return x


def split_heads(x: Tensor, heads: int, width: int) -> Tensor:
    """[B,T,heads*width] -> [B,T,heads,width]."""
    return F.reshape(x, (*x.shape[:2], heads, width))


def attend(w: Weights, batch: Batch, q: Tensor, k: Tensor, v: Tensor, *, window=None, scale=None, dropout: float = 0.0,
           softcap: float | None = None, slopes: Tensor | None = None, causal: bool = True) -> Tensor:
    """Causal attention, or bidirectional, of q [B,T,Hq,D] over k, v [B,T,Hk,D] and the cache: [B,T,Hq*D].

    scale None means width^-0.5; window counts keys, the query's own among them (bidirectional: on either side); dropout acts only in
    training. softcap bounds the scaled scores; slopes [Hq]: each head's score falls by its slope for every key further back (ALiBi)."""
    if batch.cache:
        assert causal, "only causal attention has a cache"
        mixed = batch.cache.attend(w.prefix, batch, q, k, v, window=window, scale=scale, softcap=softcap, slopes=slopes)
        return F.reshape(mixed, (*q.shape[:2], q.shape[2] * v.shape[3]))
    random = {"dropout": dropout, "seed": batch.seed, "stream": stream_of(w.name("attention"))} if batch.training and dropout else {}
    mixed = F.attention(q, k, v, batch.segments, batch.segments, causal=causal, window=window, scale=scale, softcap=softcap,
                        slopes=slopes, **random)
    return F.reshape(mixed, (*q.shape[:2], q.shape[2] * q.shape[3]))


def separate(w: Weights, x: Tensor, heads: Heads, bias: bool, names: tuple[str, str, str] = ("q_proj", "k_proj", "v_proj")
             ) -> tuple[Tensor, Tensor, Tensor]:
    """q [B,T,Hq,D], k and v [B,T,Hk,D] by three projections."""
    return tuple(split_heads(w.linear(name, x, count * heads.width, bias), count, heads.width)
                 for name, count in zip(names, (heads.queries, heads.keys, heads.keys), strict=True))


def fused_by_head(w: Weights, x: Tensor, heads: Heads, bias: bool, name: str = "query_key_value") -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v by one projection whose output is, for each key head, its queries, the key and the value."""
    group = heads.queries // heads.keys
    rows = w.linear(name, x, (heads.queries + 2 * heads.keys) * heads.width, bias)
    fused = F.reshape(rows, (*x.shape[:2], heads.keys, group + 2, heads.width))
    q = fused[:, :, :, 0] if group == 1 else F.reshape(fused[:, :, :, :group], (*x.shape[:2], heads.queries, heads.width))
    return q, fused[:, :, :, group], fused[:, :, :, group + 1]


def fused_in_blocks(w: Weights, x: Tensor, heads: Heads, bias: bool, name: str = "qkv_proj") -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v by one projection: all of q, then all of k, then all of v."""
    counts = heads.queries, heads.keys, heads.keys
    parts = F.split(w.linear(name, x, sum(counts) * heads.width, bias), tuple(count * heads.width for count in counts), axis=2)
    return tuple(split_heads(part, count, heads.width) for part, count in zip(parts, counts, strict=True))


def rotated(w: Weights, q: Tensor, k: Tensor, rotate) -> tuple[Tensor, Tensor]:
    """Rotations of q and k."""
    return rotate(q), rotate(k)


def normed_rotated(w: Weights, q: Tensor, k: Tensor, rotate, norm, names: tuple[str, str] = ("q_norm", "k_norm")) -> tuple[Tensor, Tensor]:
    """A norm on each head of q and k, then the rotation."""
    return rotate(norm(w, names[0], q)), rotate(norm(w, names[1], k))


def rotated_normed(w: Weights, q: Tensor, k: Tensor, rotate, norm, names: tuple[str, str] = ("q_norm", "k_norm")) -> tuple[Tensor, Tensor]:
    """The rotation, then a norm on each head of q and k."""
    return norm(w, names[0], rotate(q)), norm(w, names[1], rotate(k))


def self_attention(w: Weights, x: Tensor, batch: Batch, heads: Heads, rotate, *, qkv_bias=False, output_bias=False, project=separate,
                   place=rotated, finish=None, output: str = "o_proj", output_std=None, **score) -> Tensor:
    """Projections to heads, their place in the sequence, attention, projection back: [B,T,D] -> [B,T,D].

    place(w, q, k, rotate): rotation, and norms before or after it. finish(w, mixed): on the mixed heads [B,T,Hq*D]. score: options of
    `attend`."""
    q, k, v = project(w, x, heads, qkv_bias)
    q, k = place(w, q, k, rotate)
    mixed = attend(w, batch, q, k, v, **score)
    return w.linear(output, finish(w, mixed) if finish else mixed, x.shape[-1], output_bias, std=output_std)
