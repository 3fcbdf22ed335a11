"""Elementary functions of the specification, and the taps through which weights of recurrent steps get their gradients."""
from __future__ import annotations

from dataclasses import dataclass, field

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor

LARGEST = 3.4028234663852886e38


def limited(x: Tensor, bound: float) -> Tensor:
    """x within -bound .. bound; values that are not finite stay as they are. The gradient passes where |x| <= bound, edges included."""
    low = F.where(F.lt(x, -bound), F.where(F.ge(x, -LARGEST), -bound, x), x)
    return F.where(F.gt(x, bound), F.where(F.le(x, LARGEST), bound, low), low)


def shortened(x: Tensor, longest: float) -> Tensor:
    """x scaled so that its norm over the last axis is at most `longest`; 0: unchanged. s = min(1, m / (norm + 1e-6)).

    At norm 0 no scaling happens and none of its gradient passes (which the root alone would make NaN)."""
    if longest <= 0:
        return x
    squares = F.sum(x * x, -1, keepdims=True)
    none = F.eq(squares, 0.0)
    norm = F.sqrt(F.where(none, 1.0, squares))
    ratio = longest / (norm + 1e-6)
    scale = F.where(none, 1.0, F.where(F.gt(ratio, 1.0), 1.0, ratio))
    return x * scale


def clipped_drift(x: Tensor, bound: float, longest: float) -> Tensor:
    return shortened(limited(x, bound), longest)




@dataclass(frozen=True, eq=False)
class LinearTap:
    """One use of a weight in a recurrent step: rows x that went in, rows y that came out."""

    name: str
    use: int
    x: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class RowTap:
    """One use of a vector, repeated for the rows of the batch: its gradient keeps the rows apart."""

    name: str
    use: int
    rows: Tensor


@dataclass(eq=False)
class Weights:
    """Weights of a step as states `prepared/NAME`; every use is noted, so that gradients of weights are made once for all tokens.

    Autodiff sees the weights as constants; sum over uses of dy^T x (matrices) or of the rows' gradients (vectors) is taken later."""

    shapes: dict[str, tuple[int, ...]]
    linears: list[LinearTap] = field(default_factory=list)
    rows: list[RowTap] = field(default_factory=list)
    uses: dict[str, int] = field(default_factory=dict)
    known: dict[str, Tensor] = field(default_factory=dict)

    def tensor(self, name: str) -> Tensor:
        if name not in self.known:
            self.known[name] = F.state(f"prepared/{name}", self.shapes[name])
        return self.known[name]

    def _use(self, name: str) -> int:
        self.uses[name] = self.uses.get(name, -1) + 1
        return self.uses[name]

    def linear(self, name: str, x: Tensor) -> Tensor:
        """x [..., B, K] times the transpose of a weight [..., N, K]."""
        y = F.matmul(x, self.tensor(name), transpose_b=True)
        self.linears.append(LinearTap(name, self._use(name), x, y))
        return y

    def row(self, name: str, batch: int) -> Tensor:
        """A vector [w] as rows [B,w], or vectors [n,w] as [n,B,w]."""
        vector = self.tensor(name)
        shape = (*vector.shape[:-1], batch, vector.shape[-1])
        rows = F.expand(F.reshape(vector, (*vector.shape[:-1], 1, vector.shape[-1])), shape)
        self.rows.append(RowTap(name, self._use(name), rows))
        return rows
