"""What goes into a model and what comes out: the contract between models, training and generation."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor


class Cache(Protocol):
    """Keys and values of earlier tokens; see `hierarchos.generation.cache`."""

    capacity: int

    def attend(self, layer: str, batch: Batch, q: Tensor, k: Tensor, v: Tensor, *, window, scale, softcap, slopes) -> Tensor:
        """Stores k, v [B,T,Hk,D] of this run and lets q [B,T,Hq,D] attend to all of the layer's: [B,T,Hq,Dv]. Options as in F.attention."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Token ids, positions and segments, all i32 [B,T]; segment 0 is padding, documents packed into one row are 1, 2, ...

    training: dropouts are active and need `seed` (u32 [2], a new one each step). recompute: activations of each block are
    computed again in the backward pass instead of being kept. max_positions: no position reaches it."""

    ids: Tensor
    positions: Tensor
    segments: Tensor
    training: bool = False
    seed: Tensor | None = None
    cache: Cache | None = None
    recompute: bool = False

    @property
    def max_positions(self) -> int:
        return self.cache.capacity if self.cache else self.ids.shape[1]


@dataclass(frozen=True, eq=False)
class Output:
    """hidden [B,T,D] after the final norm; the head's weight [V,D] (`head_name`: its parameter, maybe the embedding) and bias [V].

    logits = softcap(scale * (hidden head^T + bias)), softcap(v) = c tanh(v / c)."""

    hidden: Tensor
    head: Tensor
    head_name: str
    head_bias: Tensor | None = None
    scale: float = 1.0
    softcap: float | None = None


def input_batch(rows: int, length: int, training: bool = False, recompute: bool = False) -> Batch:
    """A batch whose tensors are inputs `ids`, `positions`, `segments` (and `seed` when training)."""
    ids, positions, segments = (F.input(name, (rows, length), "i32") for name in ("ids", "positions", "segments"))
    return Batch(ids, positions, segments, training, F.input("seed", (2,), "u32") if training else None, recompute=recompute)


def region(batch: Batch, name: str) -> AbstractContextManager:
    """`with region(batch, "model.layers.3"):` makes the block a unit of recomputation when the batch asks for it."""
    return F.checkpoint(name) if batch.recompute else nullcontext()


def logits(output: Output) -> Tensor:
    """[B,T,V]. For inference: training uses `token_loss`, which never stores them."""
    return logits_of(output, output.hidden)


def logits_of(output: Output, hidden: Tensor) -> Tensor:
    """[..., V] of some rows of the hidden states [..., D]."""
    z = F.linear(hidden, output.head, output.head_bias)
    z = z if output.scale == 1 else z * output.scale
    return z if output.softcap is None else F.tanh(z * (1 / output.softcap)) * output.softcap


def token_loss(output: Output, targets: Tensor, token_weights: Tensor) -> tuple[Tensor, Tensor]:
    """(sum of token_weights * nll, nll of each token [N]); targets i32 [N] (-100: not trained), N = B*T."""
    rows, length, width = output.hidden.shape
    return F.lm_head_loss(F.reshape(output.hidden, (rows * length, width)), output.head, targets, token_weights,
                          bias=output.head_bias, scale=output.scale, softcap=output.softcap)
