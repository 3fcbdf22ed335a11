"""The computation of an adapter on one module.

    LoRA       y = x W^T + b + s (x A^T) B^T                     A [r, in], B [out, r], s = alpha / r (rsLoRA: alpha / sqrt(r))
    DoRA       y = b + (m / n) (x W^T + s (x A^T) B^T)           m [out] trained, n = row norms of W + s B A, a constant for gradients
    embedding  y = E[ids] + s A^T[ids] B^T                       A [r, V], B [D, r]
    tokens     rows of a table replaced: E' = E except rows `ids`, which are trained
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from hierarchos.graph import functions as F
from hierarchos.graph.op import apply
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.tensor import Tensor

PRODUCT = MatMul(transpose_b=True, fold=True)


def low_rank(x: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    """scale (x A^T) B^T; the factor is part of the second product."""
    return apply(replace(PRODUCT, scale=scale), F.linear(x, a), b)[0]


def change_of(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """scale B A, as large as the weight [out, in]."""
    return apply(MatMul(fold=True, scale=scale), b, a)[0]


def row_norms(weight: Tensor, a: Tensor, b: Tensor, scale: float, layout: str) -> Tensor:
    """Norms of the rows of W + scale B A, [out], as constants."""
    whole = (F.transpose(weight) if layout == "in_out" else weight) + change_of(a, b, scale)
    return F.detach(F.sqrt(F.sum(whole * whole, (1,), False)))


def dora(x: Tensor, dropped: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, magnitude: Tensor, scale: float,
         layout: str) -> Tensor:
    """The output of a DoRA layer; `dropped` is x after the adapter's dropout (x itself without)."""
    share = magnitude / row_norms(weight, a, b, scale, layout)
    base = F.linear(x, weight, layout=layout)
    if dropped is x:
        whole = share * (base + low_rank(x, a, b, scale))
    else:
        whole = base + (share - 1.0) * F.linear(dropped, weight, layout=layout) + share * low_rank(dropped, a, b, scale)
    return whole if bias is None else whole + bias


def low_rank_rows(ids: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    """What LoRA adds to the rows of an embedding."""
    rows = F.embedding(ids, F.contiguous(F.transpose(a)))
    return apply(replace(PRODUCT, scale=scale), rows, b)[0]


def selection(tokens: tuple[int, ...], rows: int) -> np.ndarray:
    """[rows, n]: 1 where a row is the n-th trained token."""
    table = np.zeros((rows, len(tokens)), np.float32)
    table[list(tokens), np.arange(len(tokens))] = 1.0
    return table


def replaced_rows(ids: Tensor, found: Tensor, own: Tensor, tokens: tuple[int, ...], rows: int) -> Tensor:
    """Rows looked up for ids, those of trained tokens taken from `own` [n, D]. Products with 0 and 1 are exact."""
    chosen = F.embedding(ids, F.constant(selection(tokens, rows)))
    kept = F.embedding(ids, F.constant(1.0 - selection(tokens, rows).sum(1, keepdims=True)))
    return found * kept + F.matmul(chosen, own)


def replaced_table(table: Tensor, own: Tensor, tokens: tuple[int, ...]) -> Tensor:
    """A table [V, D] with the rows of trained tokens taken from `own`."""
    chosen = selection(tokens, table.shape[0])
    return table * F.constant(1.0 - chosen.sum(1, keepdims=True)) + F.matmul(F.constant(chosen), own)
