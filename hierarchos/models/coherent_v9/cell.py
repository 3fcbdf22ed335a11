"""The RWKV cell that manager and worker are made of: one step of time mixing over a matrix state, one of channel mixing."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph import functions as F
from hierarchos.graph.ops.norm_mix import norm_mix
from hierarchos.graph.ops.wkv import wkv
from hierarchos.graph.tensor import Tensor
from hierarchos.models.coherent_v9.head_size import decay_rank, gate_rank
from hierarchos.models.coherent_v9.pieces import Weights, limited

SLOTS = ("n1", "n2", "v", "out", "M")       # the packed state, slot by slot


@dataclass(frozen=True)
class CellShape:
    """name: prefix of its weights ("h", "l"). bounds: of the state, of the channel mix's key and of its embedding (0: none)."""

    name: str
    width: int
    head: int
    bound: float
    key_bound: float
    embedding_bound: float

    def weights(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the prepared weights."""
        w, d, g = self.width, decay_rank(self.width), gate_rank(self.width)
        shapes = {"mix": (6, w), "rkv": (3, w, w), "wa1": (2, d, w), "g1": (g, w), "wa2": (2, w, d), "g2": (w, g), "rows": (7, w),
                  "out": (w, w), "key": (4 * w, w), "val": (w, 4 * w), "ln1": (2, w), "ln2": (2, w), "cm": (1, w)}
        return {f"{self.name}.{leaf}": shape for leaf, shape in shapes.items()}

    def state(self, batch: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the state's parts; slot 2 (v) is kept, but nothing reads it."""
        vector = (batch, self.width)
        return {"n1": vector, "n2": vector, "v": vector, "out": vector, "M": (*vector, self.head)}


@dataclass(frozen=True, eq=False)
class CellState:
    """n1, n2: inputs of both mixings one step ago; v: value; out: the block's output; M [B,w,N]: the matrix state."""

    n1: Tensor
    n2: Tensor
    v: Tensor
    out: Tensor
    M: Tensor

    def parts(self) -> tuple[Tensor, ...]:
        return self.n1, self.n2, self.v, self.out, self.M


def cell(shape: CellShape, w: Weights, x: Tensor, before: CellState, embedding: Tensor | None) -> tuple[Tensor, CellState]:
    """out [B,w] and the state after. x [B,w]; embedding [B,4w] scales the channel mix, None: no scaling."""
    name, batch, bound = shape.name, x.shape[0], shape.bound
    n1, *mixed = norm_mix(x, w.row(f"{name}.ln1", batch), before.n1, w.row(f"{name}.mix", batch), bound)
    rkv = w.linear(f"{name}.rkv", mixed[0])
    low = w.linear(f"{name}.wa1", mixed[1])
    wa = w.linear(f"{name}.wa2", F.where(F.constant(DECAY_FIRST), F.tanh(low), low))
    g = w.linear(f"{name}.g2", F.sigmoid(w.linear(f"{name}.g1", mixed[2])))
    y, matrix, value = wkv(rkv, wa, g, w.row(f"{name}.rows", batch), before.M, bound)
    x1 = x + w.linear(f"{name}.out", y)
    n2, mixed = norm_mix(x1, w.row(f"{name}.ln2", batch), before.n2, w.row(f"{name}.cm", batch), bound)
    out = x1 + channel_mix(shape, w, mixed, embedding)
    return out, CellState(n1, n2, value, limited(out, bound), matrix)


def _decay_first():
    import numpy as np
    return np.array([1, 0], np.uint32).reshape(2, 1, 1)


DECAY_FIRST = _decay_first()                # of the two low-rank pairs the first, the decay, has a tanh inside


def channel_mix(shape: CellShape, w: Weights, x: Tensor, embedding: Tensor | None) -> Tensor:
    """value(relu(key(x))^2 * embedding)."""
    key_bound, embedding_bound = shape.key_bound, shape.embedding_bound
    key = w.linear(f"{shape.name}.key", x)
    key = limited(key, key_bound) if key_bound > 0 else key
    f = F.relu_squared(key)
    if embedding is not None:
        f = f * (limited(embedding, embedding_bound) if embedding_bound > 0 else embedding)
        f = limited(f, key_bound * key_bound * embedding_bound) if key_bound > 0 and embedding_bound > 0 else f
    return w.linear(f"{shape.name}.val", f)
