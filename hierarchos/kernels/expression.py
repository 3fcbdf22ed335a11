"""Elementwise expressions as data: what fusion builds, NumPy evaluates and `spirv.py` turns into a kernel.

An `Expression` is a DAG in topological order. Values are numbered: inputs first (0 .. len(dtypes) - 1), then the result of each
instruction. Everything is broadcast to one index space, the shape that all outputs have.

    gelu(x + b) * 2     Expression(dtypes=("f32", "f32"),
                            instructions=(Instruction("add", (0, 1)),                       # value 2
                                          Instruction("gelu", (2,)),                        # value 3
                                          Instruction("constant", (), ("f32", 2.0)),        # value 4
                                          Instruction("mul", (3, 4))),                      # value 5
                            outputs=(5,))

`dropout` depends on the row-major position in the index space, so it may be fused only into a kernel whose index space has the shape
of the dropout node itself (`POSITIONAL`).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hierarchos.kernels.half import HALVES, round_to
from hierarchos.kernels.random import dropout_reference

NUMPY = {"f32": np.float32, "i32": np.int32, "u32": np.uint32}


class Instruction(NamedTuple):
    """One primitive applied to earlier values.

    attributes: constant: (dtype, value); cast: (dtype,); dropout: (probability, stream); else empty."""

    primitive: str
    operands: tuple[int, ...] = ()
    attributes: tuple = ()


@dataclass(frozen=True)
class Expression:
    """dtypes of the inputs, instructions in order, and the values that are outputs."""

    dtypes: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]

    def value_dtypes(self) -> list[str]:
        """The dtype of every value; raises TypeError where operands do not fit a primitive."""
        known = list(self.dtypes)
        for instruction in self.instructions:
            known.append(result_dtype(instruction.primitive, [known[i] for i in instruction.operands], instruction.attributes))
        return known


@dataclass(frozen=True)
class Primitive:
    """kind: "float" (f32 only), "number" (any dtype, operands alike), "compare" (alike -> u32 0/1), or special."""

    arity: int
    kind: str
    reference: Callable


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _erf(x):
    return np.vectorize(math.erf, otypes=[float])(x).astype(np.asarray(x).dtype) if np.size(x) else x


def _gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def _compare(function):
    return lambda a, b: function(a, b).astype(np.uint32)


PRIMITIVES: dict[str, Primitive] = {
    "constant": Primitive(0, "constant", None),
    "cast": Primitive(1, "cast", None),
    "dropout": Primitive(3, "dropout", None),           # x, and the two words of the seed
    "where": Primitive(3, "where", lambda c, a, b: np.where(c != 0, a, b)),
    "copy": Primitive(1, "number", lambda x: x),
    "neg": Primitive(1, "number", np.negative),
    "relu": Primitive(1, "number", lambda x: np.maximum(x, np.asarray(0, np.asarray(x).dtype))),
    "exp": Primitive(1, "float", np.exp),
    "log": Primitive(1, "float", np.log),
    "tanh": Primitive(1, "float", np.tanh),
    "erf": Primitive(1, "float", _erf),
    "sqrt": Primitive(1, "float", np.sqrt),
    "rsqrt": Primitive(1, "float", lambda x: 1 / np.sqrt(x)),
    "sin": Primitive(1, "float", np.sin),
    "cos": Primitive(1, "float", np.cos),
    "sigmoid": Primitive(1, "float", _sigmoid),
    "silu": Primitive(1, "float", lambda x: x * _sigmoid(x)),
    "gelu": Primitive(1, "float", lambda x: 0.5 * x * (1 + _erf(x * math.sqrt(0.5)))),
    "gelu_tanh": Primitive(1, "float", _gelu_tanh),
    "add": Primitive(2, "number", np.add),
    "sub": Primitive(2, "number", np.subtract),
    "mul": Primitive(2, "number", np.multiply),
    "div": Primitive(2, "float", np.divide),
    "power": Primitive(2, "float", np.power),
    "maximum": Primitive(2, "number", np.maximum),
    "minimum": Primitive(2, "number", np.minimum),
    "eq": Primitive(2, "compare", _compare(np.equal)),
    "lt": Primitive(2, "compare", _compare(np.less)),
    "le": Primitive(2, "compare", _compare(np.less_equal)),
    "gt": Primitive(2, "compare", _compare(np.greater)),
    "ge": Primitive(2, "compare", _compare(np.greater_equal)),
}
POSITIONAL = frozenset({"dropout"})


def result_dtype(primitive: str, operands: list[str], attributes: tuple) -> str:
    """The dtype of a primitive's result; raises TypeError when the operands do not fit it."""
    kind = PRIMITIVES[primitive].kind
    if len(operands) != PRIMITIVES[primitive].arity:
        raise TypeError(f"{primitive} takes {PRIMITIVES[primitive].arity} operands, got {len(operands)}")
    types = {*operands, *attributes[:1]}
    if kind == "cast" and types & set(HALVES) and not types <= {*HALVES, "f32"}:
        raise TypeError(f"cast from {operands[0]} to {attributes[0]} goes through f32")
    if kind in ("constant", "cast"):
        return attributes[0]
    if primitive != "copy" and set(operands) & set(HALVES):
        raise TypeError(f"{primitive} computes in f32; cast its operands first (got {' and '.join(operands)})")
    if kind == "dropout":
        operands = operands[:1]
    if kind == "where":
        if operands[0] == "f32":
            raise TypeError("where needs a condition of dtype u32 or i32, got f32")
        operands = operands[1:]
    if len(set(operands)) != 1:
        raise TypeError(f"{primitive} needs operands of one dtype, got {' and '.join(operands)}")
    if kind in ("float", "dropout") and operands[0] != "f32":
        raise TypeError(f"{primitive} needs f32, got {operands[0]}")
    return "u32" if kind == "compare" else operands[0]


def cast_reference(x: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers to another dtype; toward zero for integers. A float stays as precise as it was (but is rounded to a half format's
    numbers), integers become float64."""
    if dtype in HALVES:
        return round_to(x, dtype)
    if dtype != "f32":
        return x.astype(NUMPY[dtype])
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def expression_reference(expression: Expression, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Evaluates the DAG in the dtype of its inputs; every output has the broadcast shape of all inputs."""
    shape = np.broadcast_shapes(*(np.shape(x) for x in inputs))
    values = [np.asarray(x) for x in inputs]
    wide = next((v.dtype.type for v in values if v.dtype.kind == "f"), np.float32)
    with np.errstate(all="ignore"):
        for instruction in expression.instructions:
            values.append(_evaluate(instruction, [values[i] for i in instruction.operands], shape, wide))
    return [np.broadcast_to(values[i], shape).copy() for i in expression.outputs]   # ascontiguousarray would give 0-d an axis


def _evaluate(instruction: Instruction, operands: list[np.ndarray], shape: tuple[int, ...], wide: type) -> np.ndarray:
    name, _, attributes = instruction
    if name == "constant":
        return np.asarray(attributes[1], wide if attributes[0] == "f32" else NUMPY[attributes[0]])
    if name == "cast":
        return cast_reference(operands[0], attributes[0])
    if name == "dropout":
        seed = int(np.ravel(operands[1])[0]), int(np.ravel(operands[2])[0])
        return dropout_reference(np.broadcast_to(operands[0], shape), *attributes, seed)
    return np.asarray(PRIMITIVES[name].reference(*operands))
