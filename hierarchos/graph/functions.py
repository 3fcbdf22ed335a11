"""The public vocabulary: everything that a model, a loss or an optimizer step is written with.

Importing it attaches arithmetic operators to `Tensor`. The names are those of `docs/architecture.md`; each is
implemented by the file of its family in `ops/`.
"""
from __future__ import annotations

import builtins

from hierarchos.graph.autodiff import checkpoint, gradients
from hierarchos.graph.op import ShapeError
from hierarchos.graph.ops.attention import attention
from hierarchos.graph.ops.detach import detach
from hierarchos.graph.ops.dropout import dropout
from hierarchos.graph.ops.embedding import embedding
from hierarchos.graph.ops.joins import concat, pad
from hierarchos.graph.ops.leaf import assign, constant, full, input, state
from hierarchos.graph.ops.lm_head import lm_head_loss
from hierarchos.graph.ops.matmul import linear, matmul
from hierarchos.graph.ops.norm import layer_norm, rms_norm
from hierarchos.graph.ops.optimizer import adamw, sgd, sum_of_squares
from hierarchos.graph.ops.pointwise import (
    add,
    cast,
    clamp,
    cos,
    div,
    eq,
    erf,
    exp,
    expm1,
    ge,
    gelu,
    gelu_tanh,
    gt,
    le,
    log,
    lt,
    maximum,
    minimum,
    mul,
    neg,
    power,
    relu,
    relu_squared,
    rsqrt,
    sigmoid,
    silu,
    sin,
    softplus,
    sqrt,
    sub,
    tanh,
    where,
)
from hierarchos.graph.ops.reduce import max, mean, sum
from hierarchos.graph.ops.rope import rope
from hierarchos.graph.ops.rows import gather_rows, write_rows
from hierarchos.graph.ops.views import contiguous, expand, reshape, slice_axis, split, transpose
from hierarchos.graph.tensor import Tensor

__all__ = [
    "adamw", "add", "assign", "attention", "cast", "checkpoint", "clamp", "concat", "constant", "contiguous", "cos", "detach", "div",
    "dropout", "embedding", "eq", "erf", "exp", "expand", "expm1", "full", "gather_rows", "ge", "gelu", "gelu_tanh", "gradients", "gt",
    "input", "layer_norm", "le", "linear", "lm_head_loss", "log", "lt", "matmul", "max", "maximum", "mean", "minimum", "mul", "neg",
    "pad", "power", "relu", "relu_squared", "reshape", "rms_norm", "rope", "rsqrt", "sgd", "sigmoid", "silu", "sin", "slice", "softplus",
    "split", "sqrt", "state", "sub", "sum", "sum_of_squares", "tanh", "transpose", "where", "write_rows",
]
slice = slice_axis


def _operator(function, swapped: bool = False):
    def method(self, other):
        return function(other, self) if swapped else function(self, other)
    return method


def _getitem(self: Tensor, key) -> Tensor:
    """Basic indexing as in NumPy: integers, slices with step 1 and one ellipsis; always a view."""
    keys = key if isinstance(key, tuple) else (key,)
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys = (*keys[:at], *(builtins.slice(None),) * (self.rank - len(keys) + 1), *keys[at + 1:])
    result, shape = self, []
    for axis, k in enumerate((*keys, *(builtins.slice(None),) * (self.rank - len(keys)))):
        if not isinstance(k, int) and k.step not in (None, 1):
            raise ShapeError(f"slices step by 1; got {k.start}:{k.stop}:{k.step}")
        start, stop = (k, k + 1 or None) if isinstance(k, int) else (k.start, k.stop)
        start, stop = start or 0, self.shape[axis] if stop is None else stop
        if (start, stop) != (0, self.shape[axis]):
            result = slice_axis(result, axis, start, stop)
        shape += [] if isinstance(k, int) else [result.shape[axis]]
    return reshape(result, tuple(shape))


for _name, _function in (("add", add), ("sub", sub), ("mul", mul), ("truediv", div), ("pow", power)):
    setattr(Tensor, f"__{_name}__", _operator(_function))
    setattr(Tensor, f"__r{_name}__", _operator(_function, swapped=True))
Tensor.__neg__ = neg
Tensor.__matmul__ = matmul
Tensor.__getitem__ = _getitem
