"""The public vocabulary: everything that a model, a loss or an optimizer step is written with.

Importing it attaches arithmetic operators to `Tensor`. The names are those of `docs/architecture.md`; each is
implemented by the file of its family in `ops/`.
"""
from __future__ import annotations

from importlib import import_module

from hierarchos.graph.tensor import Tensor

FAMILIES = {
    "leaf": "input state constant full assign",
    "views": "reshape transpose expand split concat pad contiguous",
    "rows": "write_rows gather_rows",
    "pointwise": "neg exp log tanh erf sqrt rsqrt sin cos sigmoid silu gelu gelu_tanh relu add sub mul div power maximum minimum where "
                 "eq lt le gt ge cast",
    "reduce": "sum max mean",
    "norm": "layer_norm rms_norm",
    "embedding": "embedding",
    "optimizer": "adamw sgd sum_of_squares",
    "dropout": "dropout",
    "matmul": "matmul linear",
    "lm_head": "lm_head_loss",
    "attention": "attention",
    "rope": "rope",
}
HOME = {name: f"hierarchos.graph.ops.{family}" for family, names in FAMILIES.items() for name in names.split()}
HOME |= {"checkpoint": "hierarchos.graph.autodiff", "gradients": "hierarchos.graph.autodiff"}
__all__ = [*HOME, "slice"]


def __getattr__(name: str):
    if name == "slice":
        return import_module("hierarchos.graph.ops.views").slice_axis
    if name not in HOME:
        raise AttributeError(f"hierarchos.graph.functions has no {name}")
    return getattr(import_module(HOME[name]), name)


def _operator(name: str, swapped: bool = False):
    def method(self, other):
        function = __getattr__(name)
        return function(other, self) if swapped else function(self, other)
    return method


def _getitem(self: Tensor, key) -> Tensor:
    """Basic indexing as in NumPy: integers, slices with step 1 and one ellipsis; always a view."""
    from hierarchos.graph.ops.views import reshape, slice_axis
    keys = key if isinstance(key, tuple) else (key,)
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys = (*keys[:at], *(slice(None),) * (self.rank - len(keys) + 1), *keys[at + 1:])
    result, shape = self, []
    for axis, k in enumerate((*keys, *(slice(None),) * (self.rank - len(keys)))):
        start, stop = (k, k + 1 or None) if isinstance(k, int) else (k.start, k.stop)
        start, stop = start or 0, self.shape[axis] if stop is None else stop
        if (start, stop) != (0, self.shape[axis]):
            result = slice_axis(result, axis, start, stop)
        shape += [] if isinstance(k, int) else [result.shape[axis]]
    return reshape(result, tuple(shape))


for _name, _function in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("pow", "power")):
    setattr(Tensor, f"__{_name}__", _operator(_function))
    setattr(Tensor, f"__r{_name}__", _operator(_function, swapped=True))
Tensor.__neg__ = lambda self: __getattr__("neg")(self)
Tensor.__matmul__ = lambda self, other: __getattr__("matmul")(self, other)
Tensor.__getitem__ = _getitem
