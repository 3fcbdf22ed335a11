"""The same values without a derivative: what is computed from weights but counts as a constant."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Alias, apply
from hierarchos.graph.ops.views import View
from hierarchos.graph.tensor import Tensor


@dataclass(frozen=True)
class Detach(View):
    """A view of the whole input; nothing flows back through it."""

    def infer(self, inputs):
        return [inputs[0]]

    def vjp(self, node, gradients):
        return [None]

    def reference(self, inputs):
        return [inputs[0]]

    def alias(self, slot, inputs):
        return Alias(0)


def detach(x: Tensor) -> Tensor:
    """x as a constant for differentiation."""
    return apply(Detach(), x)[0]
