"""AdamW, SGD and the sum of squares over a whole arena, and the scalars that the host computes for each step."""
from __future__ import annotations

import math

import numpy as np

BLOCK = 64                          # floats that share one entry of the group table; parameters start at multiples of it
ADAMW_HEAD, SGD_HEAD = 5, 2         # scalars before the first group's pair


def adamw_scalars(step: int, groups: list[tuple[float, float]], betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> np.ndarray:
    """float32 [5 + 2 G] for step 1, 2, ...: 1 - beta1, beta2, 1 - beta2, sqrt(1 - beta2^step), eps, then for each group
    (learning rate, decay): 1 - learning rate * decay, learning rate / (1 - beta1^step). All computed in float64."""
    head = [1 - betas[0], betas[1], 1 - betas[1], math.sqrt(1 - betas[1] ** step), eps]
    correction = 1 - betas[0] ** step
    return np.array(head + [x for rate, decay in groups for x in (1 - rate * decay, rate / correction)], np.float32)


def sgd_scalars(groups: list[tuple[float, float]], momentum: float = 0.0, dampening: float = 0.0) -> np.ndarray:
    """float32 [2 + 2 G]: momentum, 1 - dampening, then for each group (learning rate, decay)."""
    return np.array([momentum, 1 - dampening] + [x for pair in groups for x in pair], np.float32)


def _pairs(groups: np.ndarray, scalars: np.ndarray, head: int) -> tuple[np.ndarray, np.ndarray]:
    index = head + 2 * np.repeat(groups.astype(np.int64), BLOCK)
    return scalars[index], scalars[index + 1]


def adamw_reference(p, m, v, g, groups, scalars, scale) -> list[np.ndarray]:
    """PyTorch's AdamW in the dtype of its inputs; unchanged when scale is not finite."""
    if not np.isfinite(scale[0]):
        return [p.copy(), m.copy(), v.copy()]
    rest1, beta2, rest2, root2, eps = scalars[:ADAMW_HEAD]
    keep, rate = _pairs(groups, scalars, ADAMW_HEAD)
    g = g * scale[0]
    m = m + (g - m) * rest1
    v = v * beta2 + rest2 * g * g
    return [p * keep - rate * (m / (np.sqrt(v) / root2 + eps)), m, v]


def sgd_reference(*arrays, momentum: bool, nesterov: bool) -> list[np.ndarray]:
    """PyTorch's SGD in the dtype of its inputs; arrays as in graph/ops/optimizer.py."""
    *states, g, groups, scalars, scale = arrays
    if not np.isfinite(scale[0]):
        return [s.copy() for s in states]
    rate, decay = _pairs(groups, scalars, SGD_HEAD)
    g = g * scale[0] + decay * states[0]
    if not momentum:
        return [states[0] - rate * g]
    buffer = states[1] * scalars[0] + g * scalars[1]
    return [states[0] - rate * (g + scalars[0] * buffer if nesterov else buffer), buffer]


def sum_of_squares_reference(x: np.ndarray) -> np.ndarray:
    return np.sum(x * x).reshape(1)
