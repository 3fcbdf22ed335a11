"""One step of an RWKV-7 matrix state as one op; formulas and layouts: kernels/wkv.py."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Op, ShapeError, apply
from hierarchos.graph.ops.leaf import full
from hierarchos.graph.tensor import Tensor
from hierarchos.kernels.wkv import wkv_gradient_reference, wkv_reference


@dataclass(frozen=True)
class Wkv(Op):
    """Inputs rkv [3,B,w], wa [2,B,w], g [B,w], rows [7,B,w], state [B,w,N]; outputs y [B,w], the new state and
    the values [B,w], both limited to +-bound. """

    bound: float
    strided_inputs = (3,)

    def infer(self, inputs):
        rkv, wa, g, rows, state = (spec.shape for spec in inputs)
        batch, width, head = state
        fits = rkv == (3, batch, width) and wa == (2, batch, width) and g == (batch, width) and rows == (7, batch, width)
        if not fits or width % head:
            raise ShapeError(f"wkv: rkv {list(rkv)}, wa {list(wa)}, g {list(g)}, rows {list(rows)} do not fit the state {list(state)}")
        return [inputs[2], inputs[4], inputs[2]]

    def vjp(self, node, gradients):
        dy, dstate, dkept = gradients
        dy = full(node.specs[0].shape, 0.0) if dy is None else dy
        dstate = full(node.specs[1].shape, 0.0) if dstate is None else dstate
        drkv, *others = apply(WkvGradient(self.bound), *node.inputs, dy, dstate)
        if dkept is not None:                       # in a model nothing reads the kept values but files
            from hierarchos.graph import functions as F
            v = node.inputs[0][2]
            inside = F.where(F.le(F.maximum(v, -v), self.bound), dkept, 0.0)
            drkv = drkv + F.pad(F.reshape(inside, (1, *v.shape)), 0, 2, 0)
        return [drkv, *others]

    def reference(self, inputs):
        return wkv_reference(self.bound, *inputs)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.wkv import wkv
        return wkv(self.bound, inputs, outputs, profile)


@dataclass(frozen=True)
class WkvGradient(Op):
    """Inputs of Wkv, dy [B,w], gradient of the new state [B,w,N]; outputs gradients of all five inputs."""

    bound: float
    strided_inputs = (3,)

    def infer(self, inputs):
        return list(inputs[:5])

    def reference(self, inputs):
        return wkv_gradient_reference(self.bound, *inputs)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.wkv import wkv_gradient
        return wkv_gradient(self.bound, inputs, outputs, profile)


def wkv(rkv: Tensor, wa: Tensor, g: Tensor, rows: Tensor, state: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """y [B,w] and the new state [B,w,N]."""
    return apply(Wkv(bound), rkv, wa, g, rows, state)
