"""The SPIR-V of one elementwise kernel: an expression over an index space, written with `spirv.Assembler`.

Push constants: addresses of inputs and outputs, then `count` (elements of a run), `chunk` (elements of it that a workgroup takes),
`lines` (number of rows), `zero` (0), then the numbers that the `Layout` leaves open. Two ways to walk (Layout.rows):

    flat  i = (group.y * groups.x + group.x) * chunk + lane + k * LOCAL < count = all elements; outer axes by division
    rows  i runs over the innermost axis only; the row = group.z * groups.y + group.y is split into the outer axes once

so that in row kernels the divisions are paid once for a run of elements. A multiple of `zero` is added to the offset of every operand:
no two share an offset then, as far as the compiler knows, which makes Mesa 22.3 four times faster (shaders/include/rows.glsl).
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hierarchos.kernels import spirv as s
from hierarchos.kernels.elementwise_primitives import Primitives
from hierarchos.kernels.expression import POSITIONAL, Expression
from hierarchos.kernels.launch import item_bytes
from hierarchos.vulkan import Shader

FIXED_NUMBERS = 4                                   # count, chunk, lines, zero
ADD, MULTIPLY, DIVIDE, LESS, MINIMUM, U_CONVERT, CONVERT_TO_POINTER = 128, 132, 134, 176, 38, 113, 120
OPEN = -1                                           # a size or stride that comes as a push constant


@dataclass(frozen=True)
class Layout:
    """What is fixed in the code: strides 0 and 1 (and every number when baked); OPEN ones are push constants.

    extents: of all axes but the outermost, outer first; strides: of each operand, inputs then outputs, for each axis, outer first."""

    rows: bool
    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    local: int

    @property
    def rank(self) -> int:
        return len(self.extents) + 1


@lru_cache(maxsize=4096)
def elementwise_shader(expression: Expression, layout: Layout) -> Shader:
    """The generated kernel; equal expressions and layouts give the same object."""
    names = "_".join(dict.fromkeys(i.primitive for i in expression.instructions if i.primitive != "constant"))
    return Shader(f"elementwise_{names or 'copy'}"[:64], _Kernel(expression, layout).code())


class _Kernel(Primitives):
    """Writes main for one expression and layout."""

    def __init__(self, expression: Expression, layout: Layout):
        self.expression, self.layout, self.asm = expression, layout, s.Assembler(s.library())
        self.dtypes = expression.value_dtypes()
        self.operand_dtypes = [*expression.dtypes, *(self.dtypes[i] for i in expression.outputs)]
        asm = self.asm
        self.pointers = {dtype: self._buffer_pointer(dtype) for dtype in dict.fromkeys(self.operand_dtypes)}
        self.opened = [n for row in (layout.extents, *layout.strides) for n in row].count(OPEN)
        self.push = self._push_block()
        vector = asm.type(s.TYPE_VECTOR, asm.u32, 3)
        self.builtins = {name: self._builtin(vector, number) for name, number in (("groups", 24), ("group", 26), ("lane", 27))}

    def code(self) -> bytes:
        asm = self.asm
        asm.label(asm.id())
        self._load_arguments()
        vector = asm.type(s.TYPE_VECTOR, asm.u32, 3)
        lane, group, groups = (asm.value(s.LOAD, vector, self.builtins[name]) for name in ("lane", "group", "groups"))
        x, y, z = (self._part(group, axis) for axis in range(3))
        if self.layout.rows:
            self.row = self._add(self._mul(z, self._part(groups, 1)), y)
            part, base = x, self._divide(self.row, self.extents[:-1])
        else:
            self.row = None
            part, base = self._add(self._mul(y, self._part(groups, 0)), x), None
        start = self._mul(part, self.chunk)
        stop = self._minimum(self._add(start, self.chunk), self.count)
        if self.layout.rows:                        # the grid may have more rows than there are
            stop = self.select(asm.value(LESS, asm.bool, self.row, self.lines), "u32", stop, asm.number("u32", 0))
        self._loop(self._add(start, self._part(lane, 0)), stop, base)
        asm.emit(s.RETURN)
        return asm.module(self.layout.local, (*self.builtins.values(), self.push))

    # declarations

    def _buffer_pointer(self, dtype: str) -> int:
        asm = self.asm
        array = asm.fresh_type(s.TYPE_RUNTIME_ARRAY, asm.stored(dtype))
        asm.decorate(array, s.ARRAY_STRIDE, item_bytes(dtype))
        block = asm.fresh_type(s.TYPE_STRUCT, array)
        asm.decorate(block, s.BLOCK)
        asm.decorations.append((s.MEMBER_DECORATE, block, 0, s.OFFSET, 0))
        return asm.type(s.TYPE_POINTER, s.PHYSICAL_CLASS, block)

    def _push_block(self) -> int:
        asm, pointers = self.asm, [self._address_type(d) for d in self.operand_dtypes]
        block = asm.fresh_type(s.TYPE_STRUCT, *pointers, *[asm.u32] * (FIXED_NUMBERS + self.opened))
        asm.decorate(block, s.BLOCK)
        for member in range(len(pointers) + FIXED_NUMBERS + self.opened):
            offset = 8 * min(member, len(pointers)) + 4 * max(0, member - len(pointers))
            asm.decorations.append((s.MEMBER_DECORATE, block, member, s.OFFSET, offset))
        return asm.variable(block, s.PUSH_CONSTANT_CLASS)

    def _address_type(self, dtype: str) -> int:
        """How an operand's address comes: to halves as a number, because older validation layers look for 16-bit data behind pointers."""
        if item_bytes(dtype) == 4:
            return self.pointers[dtype]
        self.asm.capabilities[(s.CAPABILITY, s.INT64)] = None
        return self.asm.type(s.TYPE_INT, 64, 0)

    def _builtin(self, type_: int, number: int) -> int:
        variable = self.asm.variable(type_, s.INPUT_CLASS)
        self.asm.decorate(variable, s.BUILTIN, number)
        return variable

    # arguments

    def _argument(self, member: int, type_: int) -> int:
        asm = self.asm
        pointer = asm.type(s.TYPE_POINTER, s.PUSH_CONSTANT_CLASS, type_)
        return asm.value(s.LOAD, type_, asm.value(s.ACCESS_CHAIN, pointer, self.push, asm.number("i32", member)))

    def _buffer(self, member: int, dtype: str) -> int:
        address = self._argument(member, self._address_type(dtype))
        return self.asm.value(CONVERT_TO_POINTER, self.pointers[dtype], address) if item_bytes(dtype) == 2 else address

    def _load_arguments(self) -> None:
        asm, count = self.asm, len(self.operand_dtypes)
        self.buffers = [self._buffer(i, d) for i, d in enumerate(self.operand_dtypes)]
        self.count, self.chunk, self.lines, zero = (self._argument(count + i, asm.u32) for i in range(FIXED_NUMBERS))
        self.own = [asm.value(MULTIPLY, asm.u32, zero, asm.number("u32", k + 1)) for k in range(count)]
        following = iter(range(count + FIXED_NUMBERS, count + FIXED_NUMBERS + self.opened))

        def number(n: int) -> int:
            return self._argument(next(following), asm.u32) if n == OPEN else asm.number("u32", n)
        self.extents = [number(n) for n in self.layout.extents]
        self.strides = [[number(n) for n in row] for row in self.layout.strides]

    # integer arithmetic that knows 0 and 1

    def _is(self, value: int, number: int) -> bool:
        return value == self.asm.number("u32", number)

    def _add(self, a: int, b: int) -> int:
        return b if self._is(a, 0) else a if self._is(b, 0) else self.asm.value(ADD, self.asm.u32, a, b)

    def _mul(self, a: int, b: int) -> int:
        if self._is(a, 0) or self._is(b, 0):
            return self.asm.number("u32", 0)
        return b if self._is(a, 1) else a if self._is(b, 1) else self.asm.value(MULTIPLY, self.asm.u32, a, b)

    def _minimum(self, a: int, b: int) -> int:
        return self.asm.value(12, self.asm.u32, self.asm.library.extended, MINIMUM, a, b)

    def _part(self, vector: int, index: int) -> int:
        return self.asm.value(s.COMPOSITE_EXTRACT, self.asm.u32, vector, index)

    def _divide(self, index: int, extents: list[int]) -> list[int]:
        """Positions along axes from a row-major index; extents: of all axes but the outermost."""
        asm, positions = self.asm, []
        for extent in reversed(extents):
            quotient = asm.value(DIVIDE, asm.u32, index, extent)
            positions.append(asm.value(130, asm.u32, index, asm.value(MULTIPLY, asm.u32, quotient, extent)))
            index = quotient
        return [index, *reversed(positions)]

    # the loop over elements

    def _loop(self, first: int, stop: int, outer: list[int] | None) -> None:
        """Elements first, first + local, ... below stop."""
        asm, layout = self.asm, self.layout
        bases = self.own
        if outer is not None:
            bases = [self._add(own, self._dot(outer, strides[:-1])) for own, strides in zip(self.own, self.strides, strict=True)]
        before, header, test, body, step, after = (asm.id() for _ in range(6))
        asm.emit(s.BRANCH, before)
        asm.label(before)
        asm.emit(s.BRANCH, header)
        asm.label(header)
        index, following = asm.id(), asm.id()
        asm.body.append((s.PHI, asm.u32, index, first, before, following, step))
        asm.emit(s.LOOP_MERGE, after, step, 0)
        asm.emit(s.BRANCH, test)
        asm.label(test)
        asm.emit(s.BRANCH_CONDITIONAL, asm.value(LESS, asm.bool, index, stop), body, after)
        asm.label(body)
        self._element(index, bases)
        asm.emit(s.BRANCH, step)
        asm.label(step)
        asm.body.append((ADD, asm.u32, following, index, asm.number("u32", layout.local)))
        asm.emit(s.BRANCH, header)
        asm.label(after)

    def _dot(self, positions: list[int], strides: list[int]) -> int:
        total = self.asm.number("u32", 0)
        for position, stride in zip(positions, strides, strict=True):
            total = self._add(total, self._mul(position, stride))
        return total

    def _element(self, index: int, bases: list[int]) -> None:
        """Loads, computes and stores one element."""
        inner = [index] if self.layout.rows or self.layout.rank == 1 else self._divide(index, self.extents)
        offsets = [self._dot(inner, strides[-len(inner):]) for strides in self.strides]
        places = [self._add(base, offset) for base, offset in zip(bases, offsets, strict=True)]
        if any(i.primitive in POSITIONAL for i in self.expression.instructions):
            self.position = index if self.row is None else self._add(self._mul(self.row, self.count), index)
        inputs = len(self.expression.dtypes)
        values = [self._load(i, places[i]) for i in range(inputs)]
        for instruction in self.expression.instructions:
            values.append(self.instruction(instruction, values))
        for operand, value in enumerate(self.expression.outputs, inputs):
            self._store(operand, places[operand], values[value])

    def _place(self, operand: int, place: int) -> int:
        asm = self.asm
        pointer = asm.type(s.TYPE_POINTER, s.PHYSICAL_CLASS, asm.stored(self.operand_dtypes[operand]))
        return asm.value(s.ACCESS_CHAIN, pointer, self.buffers[operand], asm.number("i32", 0), place)

    def _load(self, operand: int, place: int) -> int:
        """The value of an element; of halves the 16 bits, as a u32."""
        asm, dtype = self.asm, self.operand_dtypes[operand]
        value = asm.value(s.LOAD, asm.stored(dtype), self._place(operand, place), 2, item_bytes(dtype))
        return asm.value(U_CONVERT, asm.u32, value) if item_bytes(dtype) == 2 else value

    def _store(self, operand: int, place: int, value: int) -> None:
        asm, dtype = self.asm, self.operand_dtypes[operand]
        value = asm.value(U_CONVERT, asm.stored(dtype), value) if item_bytes(dtype) == 2 else value
        asm.emit(s.STORE, self._place(operand, place), value, 2, item_bytes(dtype))
