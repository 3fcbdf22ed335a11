"""Rows at positions that live on the device: writing a cache while decoding, selecting positions."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hierarchos.graph.op import Alias, Op, ShapeError, apply
from hierarchos.graph.ops.views import reshape
from hierarchos.graph.tensor import Tensor
from hierarchos.kernels import copy
from hierarchos.kernels.launch import In, Lowering, Operand, Out, Work, row_major


@dataclass(frozen=True)
class WriteRows(Op):
    """state [B,S,...], rows [B,n,...], index i32 [B]: writes rows in place at [b, index[b] + i]; past the end is dropped."""

    strided_inputs = (1,)
    effect = True

    def infer(self, inputs):
        state, rows, index = inputs
        fits = (rows.shape[:1] == state.shape[:1] == index.shape and rows.shape[2:] == state.shape[2:]
                and index.dtype == "i32" and rows.dtype == state.dtype and len(rows.shape) >= 2)
        if not fits:
            raise ShapeError(f"write_rows: rows {list(rows.shape)} at index {index.dtype}{list(index.shape)} do not fit {state.shape}")
        return [state]

    def reference(self, inputs):
        return [copy.scatter_rows_reference(*inputs)]

    def alias(self, slot, inputs):
        return Alias(0, mutates=True)

    def lower(self, inputs, outputs, profile):
        state, rows, _ = inputs
        if rows.strides[2:] == row_major(rows.shape[2:]):
            return Lowering((copy.scatter_rows(Out(0), In(1), In(2), state, rows, profile),))
        whole = Operand(rows.shape, rows.dtype, row_major(rows.shape))
        scratch = Work(0, 4 * rows.size)
        copies = copy.strided_copy(In(1), scratch, rows.shape, rows.strides, whole.strides, profile, "rows")
        return Lowering((*copies, copy.scatter_rows(Out(0), scratch, In(2), state, whole, profile)), 4 * rows.size)


def write_rows(state: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    """Writes rows [B,n,...] into a state [B,S,...] at [b, index[b] + i]; returns the state after the write."""
    return apply(WriteRows(), state, rows, index)[0]


def gather_rows(x: Tensor, index: Tensor) -> Tensor:
    """Rows x[index[m]] of x [N,...] for an i32 index [M]: [M,...]."""
    from hierarchos.graph.ops.embedding import embedding
    table = reshape(x, (x.shape[0], prod(x.shape[1:])))
    return reshape(embedding(index, table), (*index.shape, *x.shape[1:]))
