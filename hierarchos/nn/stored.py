"""How the values of a parameter lie in a store: as floats, or packed where the parameter says so."""
from __future__ import annotations

from typing import TYPE_CHECKING

from hierarchos.graph.tensor import Spec

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.nn.weights import ParameterSpec

FLOATS = "fp32"


def place_of(spec: ParameterSpec) -> Spec:
    """Shape and dtype in a store."""
    if spec.stored == FLOATS:
        return Spec(spec.shape)
    from hierarchos.graph.ops.unpack import words_of

    return Spec((words_of(spec.size, spec.stored),), "u32")


def as_stored(spec: ParameterSpec, values: np.ndarray) -> np.ndarray:
    """Values as a store takes them."""
    if spec.stored == FLOATS:
        return values
    from hierarchos.graph.ops.unpack import pack

    return pack(values, spec.stored)
