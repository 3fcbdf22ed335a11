"""Leaves of a graph (inputs, states, constants) and the assignment that writes a state."""
from __future__ import annotations

import struct
from dataclasses import dataclass
from hashlib import sha256

from hierarchos.graph.op import Alias, Op, ShapeError, apply
from hierarchos.graph.tensor import NUMPY_NAME, Spec, Tensor
from hierarchos.kernels import copy
from hierarchos.kernels.launch import Clear, In, Lowering, Out


def word_of(value: float | int, dtype: str) -> int:
    """The 32-bit pattern that stores `value` in this dtype."""
    return struct.unpack("<I", struct.pack({"f32": "<f", "i32": "<i", "u32": "<I"}[dtype], value))[0]


@dataclass(frozen=True)
class Leaf(Op):
    """A node without inputs whose value the program provides."""

    def vjp(self, node, gradients):
        return []


@dataclass(frozen=True)
class Input(Leaf):
    """Written by the host before each run."""

    name: str
    spec: Spec

    def infer(self, inputs):
        return [self.spec]


@dataclass(frozen=True)
class State(Leaf):
    """A persistent tensor of the store: a parameter, a moment, a cache. Reading it sees its memory as it is then."""

    name: str
    spec: Spec

    def infer(self, inputs):
        return [self.spec]


@dataclass(frozen=True)
class Constant(Leaf):
    """Bytes known when tracing; uploaded once for each program. `data` is row-major little-endian."""

    spec: Spec
    digest: str
    data: bytes

    def infer(self, inputs):
        return [self.spec]

    def __hash__(self):
        return hash((self.spec, self.digest))

    def __repr__(self):
        return f"Constant({self.spec}, {self.digest[:8]})"

    def reference(self, inputs):
        import numpy as np
        return [np.frombuffer(self.data, NUMPY_NAME[self.spec.dtype]).reshape(self.spec.shape)]


@dataclass(frozen=True)
class Full(Leaf):
    """Every element is `value`. Elementwise kernels take it as a literal instead of reading memory."""

    spec: Spec
    value: float | int

    def infer(self, inputs):
        return [self.spec]

    def reference(self, inputs):
        import numpy as np
        return [np.full(self.spec.shape, self.value, NUMPY_NAME[self.spec.dtype])]

    def lower(self, inputs, outputs, profile):
        return Lowering((Clear(Out(0), outputs[0].size * 4, word_of(self.value, self.spec.dtype)),))


@dataclass(frozen=True)
class Assign(Op):
    """Writes `value` (input 1) over the state (input 0); the output is the state after the write."""

    strided_inputs = "all"
    effect = True

    def infer(self, inputs):
        state, value = inputs
        if state != value:
            raise ShapeError(f"assign: the state is {state.dtype}{list(state.shape)}, the value {value.dtype}{list(value.shape)}")
        return [state]

    def reference(self, inputs):
        return [inputs[1]]

    def alias(self, slot, inputs):
        return Alias(0, mutates=True)

    def lower(self, inputs, outputs, profile):
        value, target = inputs[1], outputs[0]
        return Lowering(copy.strided_copy(In(1), Out(0), value.shape, value.strides, target.strides, profile, "assign"))


def input(name: str, shape: tuple[int, ...], dtype: str = "f32") -> Tensor:
    """A tensor that the host writes before each run, by name."""
    return apply(Input(name, Spec(tuple(shape), dtype)))[0]


def state(name: str, shape: tuple[int, ...], dtype: str = "f32") -> Tensor:
    """A tensor of the state store, by name; shape and dtype must be those of the store."""
    return apply(State(name, Spec(tuple(shape), dtype)))[0]


def constant(array) -> Tensor:
    """A tensor whose values are known now; floats become f32, signed integers i32, unsigned u32."""
    import numpy as np
    array = np.asarray(array)
    dtype = {"f": "f32", "i": "i32", "u": "u32", "b": "i32"}[array.dtype.kind]
    data = np.ascontiguousarray(array, NUMPY_NAME[dtype]).tobytes()
    return apply(Constant(Spec(tuple(array.shape), dtype), sha256(data).hexdigest(), data))[0]


def full(shape: tuple[int, ...], value: float | int, dtype: str = "f32") -> Tensor:
    """A tensor filled with one value."""
    return apply(Full(Spec(tuple(shape), dtype), value))[0]


def assign(state: Tensor, value: Tensor) -> Tensor:
    """Writes `value` into a state; readers traced later must use the returned tensor."""
    return apply(Assign(), state, value)[0]
