"""Dropout whose random numbers depend on the step's seed and the place in the model only."""

from __future__ import annotations

import zlib

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.nn.batch import Batch


def stream_of(name: str) -> int:
    """Number of the random stream of a place in the model, in 0 .. 2^31 - 1: CRC-32 of its name without the top bit."""
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


def dropout(x: Tensor, probability: float, batch: Batch, place: str) -> Tensor:
    """Zeroes each element with `probability` and scales the rest by 1/(1-probability), in training; x itself otherwise."""
    if not batch.training or probability == 0:
        return x
    return F.dropout(x, probability, batch.seed, stream_of(place))
