"""SPIR-V written from Python: an assembler that starts from a compiled library of functions.

`Assembler(library)` takes the module of shaders/elementwise_library.comp apart; the caller emits the body of a new `main`, and
`module()` puts together what that main reaches: types, constants, functions. No shader compiler is needed at run time.
Opcodes are those of the SPIR-V specification, unified1.
"""
from __future__ import annotations

import struct
from functools import cache

from hierarchos.resources import resource

LIBRARY = "elementwise_library"
# Functions of the library in the order in which its main calls them.
FUNCTIONS = ("exp", "log", "tanh", "erf", "sqrt", "rsqrt", "sin", "cos", "sigmoid", "silu", "gelu", "gelu_tanh", "div", "power", "dropout",
             "from_f16", "to_f16", "from_bf16", "to_bf16")

MAGIC, VERSION_1_5 = 0x07230203, 0x00010500
EXT_IMPORT, MEMORY_MODEL, ENTRY_POINT, EXECUTION_MODE, CAPABILITY = 11, 14, 15, 16, 17
TYPE_VOID, TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_VECTOR = 19, 20, 21, 22, 23
TYPE_RUNTIME_ARRAY, TYPE_STRUCT, TYPE_POINTER, TYPE_FUNCTION, TYPE_FORWARD = 29, 30, 32, 33, 39
CONSTANT_TRUE, CONSTANT_FALSE, CONSTANT, CONSTANT_COMPOSITE, VARIABLE, UNDEF = 41, 42, 43, 44, 59, 1
FUNCTION, FUNCTION_END, FUNCTION_CALL = 54, 56, 57
LOAD, STORE, ACCESS_CHAIN, DECORATE, MEMBER_DECORATE, COMPOSITE_EXTRACT = 61, 62, 65, 71, 72, 81
PHI, LOOP_MERGE, SELECTION_MERGE, LABEL, BRANCH, BRANCH_CONDITIONAL, RETURN = 245, 246, 247, 248, 249, 250, 253
NO_CONTRACTION, BLOCK, BUILTIN, OFFSET, ARRAY_STRIDE = 42, 2, 11, 35, 6
INPUT_CLASS, PUSH_CONSTANT_CLASS, PHYSICAL_CLASS = 1, 9, 5349
INT64, STORAGE_16 = 11, 4433                        # capabilities; the second is StorageBuffer16BitAccess
TYPES = frozenset({TYPE_VOID, TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_VECTOR, 28, TYPE_RUNTIME_ARRAY, TYPE_STRUCT, TYPE_POINTER,
                   TYPE_FUNCTION, TYPE_FORWARD})
TYPED = frozenset({CONSTANT_TRUE, CONSTANT_FALSE, CONSTANT, CONSTANT_COMPOSITE, VARIABLE, UNDEF, 46, 48, 49, 50, 51, 52})

Words = tuple[int, ...]


def instructions(code: bytes) -> list[Words]:
    """The instructions of a module as (opcode, operand words...)."""
    words = struct.unpack(f"<{len(code) // 4}I", code)
    assert words[0] == MAGIC, "not SPIR-V"
    result, at = [], 5
    while at < len(words):
        result.append((words[at] & 0xFFFF, *words[at + 1: at + (words[at] >> 16)]))
        at += words[at] >> 16
    return result


def string(text: str) -> Words:
    """A zero-terminated string as words."""
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


class Library:
    """A compiled module taken apart: declarations, decorations and functions by id."""

    def __init__(self, code: bytes, names: tuple[str, ...]):
        self.bound = struct.unpack_from("<I", code, 12)[0]
        self.head, self.decorations, self.globals, self.functions = [], [], [], {}
        body: list[Words] | None = None
        for instruction in instructions(code):
            opcode = instruction[0]
            if opcode == FUNCTION:
                body = self.functions.setdefault(instruction[2], [])
            if body is not None:
                body.append(instruction)
                body = None if opcode == FUNCTION_END else body
            elif opcode in (CAPABILITY, EXT_IMPORT, MEMORY_MODEL, 10):
                self.head.append(instruction)
            elif opcode in (DECORATE, MEMBER_DECORATE):
                self.decorations.append(instruction)
            elif opcode in TYPES or opcode in TYPED:
                self.globals.append(instruction)
            elif opcode == ENTRY_POINT:
                main = instruction[2]
        self.extended = next(i[1] for i in self.head if i[0] == EXT_IMPORT)
        calls = [i[3] for i in self.functions.pop(main) if i[0] == FUNCTION_CALL]
        assert len(calls) == len(names), f"library main calls {len(calls)} functions, expected {len(names)}"
        self.named = dict(zip(names, calls, strict=True))

    def reached(self, wanted: set[int]) -> set[int]:
        """The functions in `wanted` and all that they call."""
        found, todo = set(), list(wanted)
        while todo:
            function = todo.pop()
            if function not in found:
                found.add(function)
                todo += [i[3] for i in self.functions[function] if i[0] == FUNCTION_CALL]
        return found


@cache
def library() -> Library:
    """The shipped elementwise library."""
    return Library((resource("shaders/spirv") / f"{LIBRARY}.spv").read_bytes(), FUNCTIONS)


class Assembler:
    """Collects declarations and the body of `main`; ids are plain integers."""

    def __init__(self, source: Library):
        self.library, self.bound = source, source.bound
        self.declared = {_key(i): _result(i) for i in source.globals}
        self.globals, self.decorations, self.body, self.called = list(source.globals), list(source.decorations), [], set()
        self.f32, self.u32, self.i32 = self.type(TYPE_FLOAT, 32), self.type(TYPE_INT, 32, 0), self.type(TYPE_INT, 32, 1)
        self.bool, self.void = self.type(TYPE_BOOL), self.type(TYPE_VOID)
        self.capabilities: dict[Words, None] = {}   # beyond those of the library

    def id(self) -> int:
        self.bound += 1
        return self.bound - 1

    def type(self, opcode: int, *operands: int) -> int:
        """A type that may exist already; structs and arrays that need decorations use `fresh_type`."""
        return self.declared.get((opcode, *operands)) or self.fresh_type(opcode, *operands)

    def fresh_type(self, opcode: int, *operands: int) -> int:
        new = self.id()
        self.globals.append((opcode, new, *operands))
        self.declared.setdefault((opcode, *operands), new)
        return new

    def constant(self, type_: int, word: int) -> int:
        """A 32-bit constant from its bit pattern."""
        key = (CONSTANT, type_, word)
        if key not in self.declared:
            self.declared[key] = self.id()
            self.globals.append((CONSTANT, type_, self.declared[key], word))
        return self.declared[key]

    def number(self, dtype: str, value: float) -> int:
        """A constant of dtype "f32", "i32" or "u32"."""
        form = {"f32": "<f", "i32": "<i", "u32": "<I"}[dtype]
        return self.constant(self.dtype(dtype), struct.unpack("<I", struct.pack(form, value))[0])

    def dtype(self, name: str) -> int:
        """The type of a value in a register; halves are there as bits."""
        return {"f32": self.f32, "i32": self.i32, "u32": self.u32, "f16": self.u32, "bf16": self.u32}[name]

    def stored(self, name: str) -> int:
        """The type of a value in memory."""
        if name not in ("f16", "bf16"):
            return self.dtype(name)
        self.capabilities[(CAPABILITY, STORAGE_16)] = None
        return self.type(TYPE_INT, 16, 0)

    def variable(self, type_: int, storage: int) -> int:
        new = self.id()
        self.globals.append((VARIABLE, self.type(TYPE_POINTER, storage, type_), new, storage))
        return new

    def decorate(self, target: int, *operands: int) -> None:
        self.decorations.append((DECORATE, target, *operands))

    def emit(self, opcode: int, *operands: int) -> None:
        """An instruction without a result."""
        self.body.append((opcode, *operands))

    def value(self, opcode: int, type_: int, *operands: int) -> int:
        """An instruction with a result; returns its id."""
        new = self.id()
        self.body.append((opcode, type_, new, *operands))
        return new

    def exact(self, opcode: int, type_: int, *operands: int) -> int:
        """Float arithmetic that the driver must neither contract nor reorder."""
        new = self.value(opcode, type_, *operands)
        self.decorate(new, NO_CONTRACTION)
        return new

    def call(self, name: str, type_: int, *operands: int) -> int:
        """Calls a library function."""
        function = self.library.named[name]
        self.called.add(function)
        return self.value(FUNCTION_CALL, type_, function, *operands)

    def label(self, label: int) -> None:
        self.emit(LABEL, label)

    def module(self, local_size: int, interface: tuple[int, ...]) -> bytes:
        """The finished module with entry point `main` and workgroups of `local_size`."""
        main, functions = self.id(), self.library.reached(self.called)
        kind = self.type(TYPE_FUNCTION, self.void)
        code = [(FUNCTION, self.void, main, 0, kind), *self.body, (FUNCTION_END,)]
        for name in self.library.functions:
            code += self.library.functions[name] if name in functions else []
        used = {word for instruction in code for word in instruction[1:]} | set(interface)
        kept = []
        for instruction in reversed(self.globals):
            if _result(instruction) in used:
                used.update(instruction[1:])
                kept.append(instruction)
        defined = {_result(i) for i in kept} | {i[2] for i in code if len(i) > 2}
        entry = [(ENTRY_POINT, 5, main, *string("main"), *interface), (EXECUTION_MODE, main, 17, local_size, 1, 1)]
        decorations = [d for d in self.decorations if d[1] in defined]
        everything = [*self.capabilities, *self.library.head, *entry, *decorations, *reversed(kept), *code]
        words = [MAGIC, VERSION_1_5, 0, self.bound, 0]
        for instruction in everything:
            words += [len(instruction) << 16 | instruction[0], *instruction[1:]]
        return struct.pack(f"<{len(words)}I", *words)


def _result(instruction: Words) -> int:
    return instruction[1] if instruction[0] in TYPES else instruction[2]


def _key(instruction: Words) -> Words:
    """What makes two declarations the same: everything but the result."""
    return (instruction[0], *instruction[2:]) if instruction[0] in TYPES else (*instruction[:2], *instruction[3:])
