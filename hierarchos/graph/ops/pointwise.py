"""Elementwise operations with NumPy broadcasting, and `Fused`, what the fusion pass makes of a chain of them.

`Pointwise(primitive, constants, attributes)` is one primitive of `kernels/expression.py`; Python numbers among its operands are
inlined: `constants` has one entry for each operand, None where a tensor stands. `Fused(expression)` holds a whole DAG. Both give
`.expression(dtypes)`, so a fusion pass concatenates instructions and never needs to know a primitive:

    Pointwise("mul", (None, 2.0)).expression(("f32",))
        -> Expression(("f32",), (Instruction("constant", (), ("f32", 2.0)), Instruction("mul", (0, 1))), (2,))

Rules for fusing a producer into a consumer: both are Pointwise or Fused; the producer's shape broadcasts to the consumer's; a
primitive in POSITIONAL (dropout) only where the shapes are equal. A Fused with several outputs has them all in one shape.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from hierarchos.graph.op import Op, ShapeError, apply
from hierarchos.graph.tensor import Spec, Tensor
from hierarchos.kernels.expression import POSITIONAL, PRIMITIVES, Expression, Instruction, expression_reference

__all__ = ["POSITIONAL", "Fused", "Pointwise", "broadcast_shape", "reduce_to"]


def broadcast_shape(name: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """NumPy's broadcast shape; ShapeError names the operation and the shapes."""
    rank = max((len(s) for s in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(shape, rank - len(shape)):
            if extent != 1 and result[axis] not in (1, extent):
                raise ShapeError(f"{name}: shapes {' and '.join(str(list(s)) for s in shapes)} do not broadcast to one shape")
            result[axis] = extent if result[axis] == 1 else result[axis]
    return tuple(result)


class _Elementwise(Op):
    """What Pointwise and Fused share: shapes, the NumPy twin and the lowering of an expression."""

    strided_inputs = strided_outputs = "all"

    def expression(self, dtypes: tuple[str, ...]) -> Expression:
        raise NotImplementedError

    def infer(self, inputs: list[Spec]) -> list[Spec]:
        shape = broadcast_shape(str(self), [s.shape for s in inputs])
        try:
            expression = self.expression(tuple(s.dtype for s in inputs))
            dtypes = expression.value_dtypes()
        except TypeError as problem:
            raise ShapeError(f"{problem} (shapes {', '.join(str(list(s.shape)) for s in inputs)})") from None
        return [Spec(shape, dtypes[i]) for i in expression.outputs]

    def reference(self, inputs):
        names = {"f": "f32", "i": "i32", "u": "u32"}
        return expression_reference(self.expression(tuple(names[x.dtype.kind] for x in inputs)), inputs)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.elementwise import elementwise
        return elementwise(self.expression(tuple(o.dtype for o in inputs)), inputs, outputs, profile)


@dataclass(frozen=True)
class Pointwise(_Elementwise):
    """One primitive. `constants[i]` is the number at operand i, or None for a tensor; see the top of the file."""

    primitive: str
    constants: tuple[float | int | None, ...]
    attributes: tuple = ()

    def __str__(self) -> str:
        return self.primitive

    def expression(self, dtypes):
        tensors, instructions, operands = iter(range(len(dtypes))), [], []
        lone_condition = self.primitive == "where" and len(dtypes) == 1
        like = "f32" if "f32" in dtypes or lone_condition else dtypes[-1]
        for constant in self.constants:
            if constant is None:
                operands.append(next(tensors))
                continue
            number = float(constant) if like == "f32" else int(constant)
            operands.append(len(dtypes) + len(instructions))
            instructions.append(Instruction("constant", (), (like, number)))
        instructions.append(Instruction(self.primitive, tuple(operands), self.attributes))
        return Expression(dtypes, tuple(instructions), (len(dtypes) + len(instructions) - 1,))

    def vjp(self, node, gradients):
        if gradients[0] is None or self.primitive not in DERIVATIVES:
            return [None] * len(node.inputs)
        tensors = iter(node.inputs)
        operands = [next(tensors) if c is None else c for c in self.constants]
        partials = DERIVATIVES[self.primitive](gradients[0], node.outputs[0], operands, self.attributes)
        wanted = [p for p, c in zip(partials, self.constants, strict=True) if c is None]
        return [None if p is None else reduce_to(p, t.shape) for p, t in zip(wanted, node.inputs, strict=True)]


@dataclass(frozen=True)
class Fused(_Elementwise):
    """A DAG of primitives over its inputs; made by the fusion pass after differentiation, so it has no derivative."""

    dag: Expression

    def __str__(self) -> str:
        return "fused " + "+".join(i.primitive for i in self.dag.instructions if i.primitive != "constant")

    def expression(self, dtypes):
        assert dtypes == self.dag.dtypes, (dtypes, self.dag.dtypes)
        return self.dag

    def reference(self, inputs):
        return expression_reference(self.dag, inputs)


def pointwise(primitive: str, *operands: Tensor | float, attributes: tuple = ()) -> Tensor:
    """Traces one primitive; operands are tensors or Python numbers, at least one a tensor."""
    constants = tuple(None if isinstance(x, Tensor) else x for x in operands)
    tensors = [x for x in operands if isinstance(x, Tensor)]
    assert tensors, f"{primitive} needs at least one tensor"
    return apply(Pointwise(primitive, constants, attributes), *tensors)[0]


def reduce_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sums x over the axes along which `shape` was broadcast: the transpose of broadcasting."""
    if x.shape == shape:
        return x
    from hierarchos.graph.functions import expand, reshape
    from hierarchos.graph.ops.reduce import sum as reduce_sum
    missing = len(x.shape) - len(shape)
    if missing < 0 or any(a == 1 != b for a, b in zip(x.shape[missing:], shape, strict=True)):
        return expand(x, shape)                 # a derivative that came out smaller than its operand (a constant factor)
    padded = (1,) * missing + shape
    axes = tuple(i for i, (a, b) in enumerate(zip(x.shape, padded, strict=True)) if b == 1 and a != 1)
    summed = reduce_sum(x, axes, keepdims=True) if axes else x
    return summed if summed.shape == shape else reshape(summed, shape)


def neg(x): return pointwise("neg", x)
def exp(x): return pointwise("exp", x)
def log(x): return pointwise("log", x)
def tanh(x): return pointwise("tanh", x)
def erf(x): return pointwise("erf", x)
def sqrt(x): return pointwise("sqrt", x)
def rsqrt(x): return pointwise("rsqrt", x)
def sin(x): return pointwise("sin", x)
def cos(x): return pointwise("cos", x)
def sigmoid(x): return pointwise("sigmoid", x)
def silu(x): return pointwise("silu", x)
def gelu(x): return pointwise("gelu", x)
def gelu_tanh(x): return pointwise("gelu_tanh", x)
def relu(x): return pointwise("relu", x)
def relu_squared(x): return power(relu(x), 2)
def add(a, b): return pointwise("add", a, b)
def sub(a, b): return pointwise("sub", a, b)
def mul(a, b): return pointwise("mul", a, b)
def div(a, b): return pointwise("div", a, b)
def maximum(a, b): return pointwise("maximum", a, b)
def minimum(a, b): return pointwise("minimum", a, b)
def eq(a, b): return pointwise("eq", a, b)
def lt(a, b): return pointwise("lt", a, b)
def le(a, b): return pointwise("le", a, b)
def gt(a, b): return pointwise("gt", a, b)
def ge(a, b): return pointwise("ge", a, b)


def clamp(x: Tensor, bound: float) -> Tensor:
    """x limited to -bound .. bound."""
    return minimum(maximum(x, -bound), bound)


def expm1(x: Tensor) -> Tensor:
    """exp(x) - 1 without cancellation near 0, for x below about 10: with t = tanh(x / 2) it is 2 t / (1 - t)."""
    t = tanh(mul(x, 0.5))
    return div(mul(t, 2.0), sub(1.0, t))


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return add(relu(x), log(add(exp(neg(maximum(x, neg(x)))), 1.0)))


def power(x: Tensor | float, exponent: Tensor | float) -> Tensor:
    """x ** exponent; the exponents 1, 2, 3, 0.5, -0.5 and -1 become products, roots and a division."""
    if isinstance(exponent, Tensor):
        return pointwise("power", x, exponent)
    special = {1.0: lambda: x, 2.0: lambda: mul(x, x), 3.0: lambda: mul(mul(x, x), x), 0.5: lambda: sqrt(x),
               -0.5: lambda: rsqrt(x), -1.0: lambda: div(1.0, x)}.get(float(exponent))
    return special() if special else pointwise("power", x, float(exponent))


def where(condition: Tensor, a: Tensor | float, b: Tensor | float) -> Tensor:
    """a where the condition (u32 or i32) is not 0, else b. Two Python numbers give f32."""
    return pointwise("where", condition, a, b)


def cast(x: Tensor, dtype: str) -> Tensor:
    """To another dtype ("f32", "i32", "u32"), toward zero for integers; differentiable from f32 to f32 only."""
    return x if x.dtype == dtype else pointwise("cast", x, attributes=(dtype,))


def _d_gelu(g, x):
    cdf = mul(add(erf(mul(x, math.sqrt(0.5))), 1.0), 0.5)
    pdf = mul(exp(mul(mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return mul(g, add(cdf, mul(x, pdf)))


def _d_gelu_tanh(g, x):
    k, c = math.sqrt(2 / math.pi), 0.044715
    square = mul(x, x)
    t = tanh(mul(mul(x, add(mul(square, c), 1.0)), k))
    slope = mul(mul(x, sub(1.0, mul(t, t))), mul(add(mul(square, 3 * c), 1.0), 0.5 * k))
    return mul(g, add(mul(add(t, 1.0), 0.5), slope))


def _d_silu(g, x):
    s = sigmoid(x)
    return mul(g, mul(s, add(mul(x, sub(1.0, s)), 1.0)))


def _d_power(g, y, x, p):
    dx = None if not isinstance(x, Tensor) else mul(g, mul(power(x, sub(p, 1.0) if isinstance(p, Tensor) else p - 1.0), p))
    dp = None if not isinstance(p, Tensor) else mul(g, mul(y, log(x) if isinstance(x, Tensor) else math.log(x)))
    return dx, dp


def _d_extreme(first_wins):
    """Gradient of maximum/minimum: to the winner, half to each on a tie (as PyTorch does)."""
    def derivative(g, y, o, _):
        first, tie = pointwise(first_wins, o[0], o[1]), eq(o[0], o[1])
        half = mul(g, 0.5)
        return where(tie, half, where(first, g, 0.0)), where(tie, half, where(first, 0.0, g))
    return derivative


def _d_where(g, y, o, _):
    return None, where(o[0], g, 0.0), where(o[0], 0.0, g)


# name -> function(gradient, output, operands, attributes) -> partial gradient of each operand (None: no gradient)
DERIVATIVES = {
    "neg": lambda g, y, o, _: (neg(g),),
    "copy": lambda g, y, o, _: (g,),
    "exp": lambda g, y, o, _: (mul(g, y),),
    "log": lambda g, y, o, _: (div(g, o[0]),),
    "tanh": lambda g, y, o, _: (mul(g, sub(1.0, mul(y, y))),),
    "erf": lambda g, y, o, _: (mul(g, mul(exp(neg(mul(o[0], o[0]))), 2 / math.sqrt(math.pi))),),
    "sqrt": lambda g, y, o, _: (div(mul(g, 0.5), y),),
    "rsqrt": lambda g, y, o, _: (mul(g, mul(div(y, o[0]), -0.5)),),
    "sin": lambda g, y, o, _: (mul(g, cos(o[0])),),
    "cos": lambda g, y, o, _: (neg(mul(g, sin(o[0]))),),
    "sigmoid": lambda g, y, o, _: (mul(g, mul(y, sub(1.0, y))),),
    "silu": lambda g, y, o, _: (_d_silu(g, o[0]),),
    "gelu": lambda g, y, o, _: (_d_gelu(g, o[0]),),
    "gelu_tanh": lambda g, y, o, _: (_d_gelu_tanh(g, o[0]),),
    "relu": lambda g, y, o, _: (where(gt(o[0], 0.0), g, 0.0),),
    "add": lambda g, y, o, _: (g, g),
    "sub": lambda g, y, o, _: (g, neg(g)),
    "mul": lambda g, y, o, _: (mul(g, o[1]), mul(g, o[0])),
    "div": lambda g, y, o, _: (div(g, o[1]), neg(div(mul(g, y), o[1]))),
    "power": lambda g, y, o, _: _d_power(g, y, o[0], o[1]),
    "maximum": _d_extreme("gt"),
    "minimum": _d_extreme("lt"),
    "where": _d_where,
    "dropout": lambda g, y, o, attributes: (pointwise("dropout", g, o[1], o[2], attributes=attributes), None, None),
}
assert DERIVATIVES.keys() <= PRIMITIVES.keys()
