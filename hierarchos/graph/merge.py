"""Puts several elementwise nodes into one expression: instructions are numbered by value, so equal ones are computed once."""
from __future__ import annotations

from collections.abc import Callable

from hierarchos.graph.ops.leaf import Full
from hierarchos.graph.ops.pointwise import Fused, Pointwise
from hierarchos.graph.ops.views import Expand, Reshape, Split, Transpose
from hierarchos.graph.tensor import Node, Tensor
from hierarchos.kernels.expression import Expression, Instruction


def elementwise(node: Node) -> bool:
    return isinstance(node.op, Pointwise | Fused)


def constant_of(tensor: Tensor) -> tuple[str, float | int] | None:
    """(dtype, value) when every element is the same number that is known now, also through views."""
    while isinstance(tensor.node.op, Expand | Reshape | Split | Transpose):
        tensor = tensor.node.inputs[0]
    return (tensor.dtype, tensor.node.op.value) if isinstance(tensor.node.op, Full) else None


class Merger:
    """Collects expressions. Values are ("input", k) or ("value", k) until the number of inputs is known."""

    def __init__(self, inlined: Callable[[Tensor], bool]):
        self.inlined = inlined
        self.inputs: list[Tensor] = []
        self.instructions: list[Instruction] = []
        self.dtypes: list[str] = []
        self.numbers: dict = {}
        self.known: dict[Tensor, tuple] = {}

    def value(self, tensor: Tensor) -> tuple:
        """The value of a tensor: a literal, the expression of an inlined producer, or an input."""
        if tensor not in self.known:
            constant = constant_of(tensor)
            if constant:
                self.known[tensor] = self.emit(Instruction("constant", (), constant))
            elif elementwise(tensor.node) and self.inlined(tensor):
                self.add(tensor.node)
            else:
                self.inputs.append(tensor)
                self.known[tensor] = ("input", len(self.inputs) - 1)
        return self.known[tensor]

    def add(self, node: Node) -> list[tuple]:
        """Adds a node's expression; returns the values of its outputs."""
        values = [self.value(t) for t in node.inputs]
        expression = node.op.expression(tuple(t.dtype for t in node.inputs))
        for instruction in expression.instructions:
            values.append(self.emit(instruction._replace(operands=tuple(values[i] for i in instruction.operands))))
        results = [values[i] for i in expression.outputs]
        self.known.update(zip(node.outputs, results, strict=True))
        return results

    def emit(self, instruction: Instruction) -> tuple:
        """The value of an instruction: an earlier one when it is the same, its operand when it multiplies by one."""
        kept = self._without_one(instruction)
        if kept is not None:
            return kept
        if instruction not in self.numbers:
            self.instructions.append(instruction)
            self.numbers[instruction] = ("value", len(self.instructions) - 1)
        return self.numbers[instruction]

    def _without_one(self, instruction: Instruction) -> tuple | None:
        if instruction.primitive != "mul":
            return None
        for one, other in (instruction.operands, instruction.operands[::-1]):
            if one[0] == "value" and self.instructions[one[1]].primitive == "constant" and self.instructions[one[1]].attributes[1] == 1:
                return other
        return None

    def expression(self, outputs: list[tuple]) -> Expression:
        """The finished expression, without instructions that no output needs."""
        needed = {value for value in outputs if value[0] == "value"}
        for index in range(len(self.instructions) - 1, -1, -1):
            if ("value", index) in needed:
                needed.update(v for v in self.instructions[index].operands if v[0] == "value")
        kept = [index for index in range(len(self.instructions)) if ("value", index) in needed]
        final = {("input", k): k for k in range(len(self.inputs))} | {("value", i): len(self.inputs) + n for n, i in enumerate(kept)}
        instructions = tuple(self.instructions[i]._replace(operands=tuple(final[v] for v in self.instructions[i].operands)) for i in kept)
        return Expression(tuple(t.dtype for t in self.inputs), instructions, tuple(final[v] for v in outputs))
