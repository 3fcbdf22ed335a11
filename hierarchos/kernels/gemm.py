"""Matrix products: from the operands' layout to launches; the NumPy twin."""
from __future__ import annotations

import numpy as np


def matmul_reference(op, inputs: list[np.ndarray]) -> np.ndarray:
    """activation(scale * op(A) op(B) + bias + residual) in the dtype of the inputs."""
    a, b, *extra = inputs
    lead = a.shape[:-1]
    if op.fold:
        a, b = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    a = a.swapaxes(-1, -2) if op.transpose_a else a
    b = b.swapaxes(-1, -2) if op.transpose_b else b
    c = (a @ b) * a.dtype.type(op.scale)
    if op.fold and not op.transpose_a:
        c = c.reshape(*lead, c.shape[-1])
    for term in extra:
        c = c + term
    return activate_reference(op.activation, c)


def activate_reference(name: str, x: np.ndarray) -> np.ndarray:
    if name == "relu":
        return np.maximum(x, 0)
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "gelu":
        from math import erf
        return 0.5 * x * (1 + np.vectorize(erf, otypes=[x.dtype])(x / np.sqrt(2)))
    if name == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    assert name == "none"
    return x
