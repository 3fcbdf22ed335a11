"""What the resolved configurations of all families have."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.nn.attention import Heads


@dataclass(frozen=True)
class Sizes:
    """max_positions: the longest row; initializer_range: spread of initial matrices; tied: the head's weight is the embedding's."""

    vocab_size: int
    max_positions: int
    width: int
    layers: int
    heads: Heads
    initializer_range: float
    tied: bool


@dataclass(frozen=True)
class DenseSizes(Sizes):
    """inner: width of the MLP between its layers; activation: as the reference calls it; norm_eps: of all norms."""

    inner: int
    activation: str
    norm_eps: float
