"""LM head and cross-entropy in row chunks; the NumPy twin."""
from __future__ import annotations

import numpy as np


def lm_head_reference(op, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """loss, nll and, with gradients, dx, dweight[, dbias] in the dtype of x."""
    x, weight, targets, token_weights, *bias = inputs
    logits = (x @ weight.T + (bias[0] if bias else 0)) * x.dtype.type(op.scale)
    bent = logits if op.softcap is None else op.softcap * np.tanh(logits / op.softcap)
    trained = targets >= 0
    picked = np.where(trained, targets, 0)[:, None]
    shifted = bent - bent.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1))
    nll = np.where(trained, log_sum - np.take_along_axis(shifted, picked, 1)[:, 0], 0).astype(x.dtype)
    loss = np.asarray((token_weights * nll).sum(), x.dtype)
    if not op.with_gradients:
        return [loss, nll]
    slope = np.exp(shifted - log_sum[:, None])
    np.put_along_axis(slope, picked, np.take_along_axis(slope, picked, 1) - 1, 1)
    slope *= (np.where(trained, token_weights, 0) * op.scale)[:, None]
    if op.softcap is not None:
        slope = slope * (1 - (bent / op.softcap) ** 2)
    slope = slope.astype(x.dtype)
    return [loss, nll, slope @ weight, slope.T @ x] + [slope.sum(axis=0)] * op.has_bias
