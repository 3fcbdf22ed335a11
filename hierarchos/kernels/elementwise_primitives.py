"""The SPIR-V of each primitive of an expression."""
from __future__ import annotations

from hierarchos.kernels import spirv as s
from hierarchos.kernels.expression import PRIMITIVES, Instruction
from hierarchos.kernels.half import HALVES
from hierarchos.kernels.random import keep_threshold

# float opcode, signed opcode, unsigned opcode
ARITHMETIC = {"add": (129, 128, 128), "sub": (131, 130, 130), "mul": (133, 132, 132), "neg": (127, 126, 126)}
COMPARE = {"eq": (180, 170, 170), "lt": (184, 177, 176), "le": (188, 179, 178), "gt": (186, 173, 172), "ge": (190, 175, 174)}
CAST = {("f32", "i32"): 110, ("f32", "u32"): 109, ("i32", "f32"): 111, ("u32", "f32"): 112, ("i32", "u32"): 124, ("u32", "i32"): 124}
SELECT, NOT_EQUAL, IS_NAN, LOGICAL_OR = 169, 171, 156, 166
KINDS = ("f32", "i32", "u32")


class Primitives:
    """Emits primitives into `asm`; a kernel class adds where values come from.

    dtypes: of every value of the expression; position: id of the row-major index of the element at hand (for dropout)."""

    asm: s.Assembler
    dtypes: list[str]
    position: int

    def instruction(self, instruction: Instruction, values: list[int]) -> int:
        """The id of an instruction's result; values: the ids of all values before it."""
        name, numbers, attributes = instruction
        operands = [values[i] for i in numbers]
        dtypes = [self.dtypes[i] for i in numbers]
        if name == "constant":
            return self.asm.number(*attributes)
        if name == "copy" or (name == "cast" and dtypes[0] == attributes[0]):
            return operands[0]
        if name == "cast" and {dtypes[0], attributes[0]} & set(HALVES):
            return self._cast_half(operands[0], dtypes[0], attributes[0])
        if name == "cast":
            return self.asm.value(CAST[dtypes[0], attributes[0]], self.asm.dtype(attributes[0]), *operands)
        if name == "dropout":
            return self._dropout(operands, *attributes)
        if name in ("where", "relu", "maximum", "minimum"):
            return self._choose(name, operands, dtypes)
        if name in ARITHMETIC:
            opcode = ARITHMETIC[name][KINDS.index(dtypes[0])]
            return (self.asm.exact if dtypes[0] == "f32" else self.asm.value)(opcode, self.asm.dtype(dtypes[0]), *operands)
        if name in COMPARE:
            return self.select(self._test(name, operands, dtypes[0]), "u32", self.asm.number("u32", 1), self.asm.number("u32", 0))
        assert PRIMITIVES[name].kind == "float", name
        return self.asm.call(name, self.asm.f32, *operands)

    def _cast_half(self, value: int, source: str, target: str) -> int:
        """Between a half format and f32, or from one half format to the other."""
        if source in HALVES:
            value = self.asm.call(f"from_{source}", self.asm.f32, value)
        return self.asm.call(f"to_{target}", self.asm.u32, value) if target in HALVES else value

    def _test(self, name: str, operands: list[int], dtype: str) -> int:
        return self.asm.value(COMPARE[name][KINDS.index(dtype)], self.asm.bool, *operands)

    def select(self, condition: int, dtype: str, yes: int, no: int) -> int:
        return self.asm.value(SELECT, self.asm.dtype(dtype), condition, yes, no)

    def _choose(self, name: str, operands: list[int], dtypes: list[str]) -> int:
        """where; relu, maximum and minimum, which hand NaN on as NumPy does."""
        if name == "where":
            condition = self.asm.value(NOT_EQUAL, self.asm.bool, operands[0], self.asm.number(dtypes[0], 0))
            return self.select(condition, dtypes[1], operands[1], operands[2])
        if name == "relu":
            operands = [operands[0], self.asm.number(dtypes[0], 0)]
        first = self._test("lt" if name == "minimum" else "gt", operands, dtypes[0])
        if dtypes[0] == "f32":
            first = self.asm.value(LOGICAL_OR, self.asm.bool, first, self.asm.value(IS_NAN, self.asm.bool, operands[0]))
        return self.select(first, dtypes[0], *operands)

    def _dropout(self, operands: list[int], probability: float, stream: int) -> int:
        """The random word belongs to the row-major position in the index space."""
        asm = self.asm
        stream, drop_below = asm.number("u32", stream), asm.number("u32", keep_threshold(probability))
        scale = asm.number("f32", 1.0 / (1.0 - probability))
        return asm.call("dropout", asm.f32, operands[0], self.position, stream, *operands[1:], drop_below, scale)
