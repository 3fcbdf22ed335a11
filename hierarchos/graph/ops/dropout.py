"""Dropout whose mask is a function of (element index, stream, seed): recomputed in backward, never stored."""
from __future__ import annotations

from hierarchos.graph.op import ShapeError
from hierarchos.graph.ops.pointwise import pointwise
from hierarchos.graph.tensor import Tensor


def dropout(x: Tensor, probability: float, seed: Tensor, stream: int) -> Tensor:
    """Zeroes elements with `probability` and scales the rest by 1 / (1 - probability).

    seed: u32 [2], written anew for each step; stream: a different number for each use in the model.
    Random bits: `kernels/random.py`; the element index is the row-major index into x (x.size < 2^32)."""
    if not 0.0 <= probability < 1.0:
        raise ValueError(f"dropout: probability {probability} is not in 0 <= p < 1")
    if seed.shape != (2,) or seed.dtype != "u32":
        raise ShapeError(f"dropout: seed must be u32 [2], got {seed.dtype} {list(seed.shape)}")
    if probability == 0.0:
        return x
    from hierarchos.graph.functions import slice as slice_axis
    words = slice_axis(seed, 0, 0, 1), slice_axis(seed, 0, 1, 2)
    return pointwise("dropout", x, *words, attributes=(float(probability), int(stream)))
