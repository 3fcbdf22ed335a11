"""Turns lowerings with symbolic operands into device commands with addresses."""
from __future__ import annotations

import struct
from functools import cache

from hierarchos.kernels.copy import coalesce
from hierarchos.kernels.launch import F32, I32, U32, Clear, In, Launch, Lowering, Operand, Out, Ref, Work, item_bytes
from hierarchos.resources import resource
from hierarchos.vulkan.commands import Command, Dispatch, Fill, Shader, Span

PUSH_BYTES = 128                                    # what every Vulkan device guarantees
Bound = tuple[int, Operand]                         # address of the first element, and how it lies there


def bind(lowering: Lowering, inputs: list[Bound], outputs: list[Bound], workspace: int = 0, label: str = "") -> list[Command]:
    """Commands of one node. `workspace` is the address of its scratch memory; `label` replaces empty launch labels."""
    resolve = _Resolver(inputs, outputs, workspace)
    return [_fill(item, resolve) if isinstance(item, Clear) else _dispatch(item, resolve, label) for item in lowering.launches]


@cache
def shader_named(name: str) -> Shader:
    """The checked-in shader shaders/NAME.comp."""
    path = resource("shaders/spirv") / f"{name}.spv"
    if not path.exists():
        raise FileNotFoundError(f"there is no shader {name}.spv in {path.parent}; in a checkout, build it with: python -m shaders.build")
    return Shader(name, path.read_bytes())


def span_bytes(operand: Operand) -> int:
    """Bytes from the first to the last element that a strided operand touches."""
    last = sum((d - 1) * s for d, s in zip(operand.shape, operand.strides, strict=True))
    return item_bytes(operand.dtype) * (1 + last) if operand.size else 0


def span_of(address: int, operand: Operand) -> Span:
    """The span of a tensor; with a pitch where it is rows of one length at one distance."""
    axes = coalesce(operand.shape, operand.strides, operand.strides)
    if len(axes) == 2 and axes[1][1] == 1 and axes[0][1] > axes[1][0] and operand.size:
        return Span(address, span_bytes(operand), item_bytes(operand.dtype) * axes[0][1], item_bytes(operand.dtype) * axes[1][0])
    return Span(address, span_bytes(operand))


class _Resolver:
    """Addresses and touched spans of references."""

    def __init__(self, inputs: list[Bound], outputs: list[Bound], workspace: int):
        self.inputs, self.outputs, self.workspace = inputs, outputs, workspace

    def span(self, ref: Ref) -> Span:
        if isinstance(ref, Work):
            return Span(self.workspace + ref.offset, ref.nbytes)
        address, operand = (self.inputs if isinstance(ref, In) else self.outputs)[ref.index]
        return Span(address + ref.offset, span_bytes(operand) - ref.offset) if ref.offset else span_of(address, operand)


def _fill(clear: Clear, resolve: _Resolver) -> Fill:
    return Fill(Span(resolve.span(clear.target).address, clear.nbytes), clear.word, "clear")


def _dispatch(launch: Launch, resolve: _Resolver, label: str) -> Dispatch:
    shader = shader_named(launch.shader) if isinstance(launch.shader, str) else launch.shader
    refs = [a for a in launch.arguments if isinstance(a, In | Out | Work)]
    reads = tuple(resolve.span(r) for r in refs if isinstance(r, In) or getattr(r, "read", False))
    writes = tuple(resolve.span(r) for r in refs if isinstance(r, Out) or getattr(r, "write", False))
    push = pack([resolve.span(a).address if isinstance(a, In | Out | Work) else a for a in launch.arguments])
    assert len(push) <= PUSH_BYTES, f"{shader.name}: {len(push)} bytes of push constants, {PUSH_BYTES} fit"
    return Dispatch(shader, tuple(map(constant_word, launch.constants)), push, launch.groups, reads, writes,
                    launch.label or label or shader.name, launch.operations, launch.bytes_moved)


def pack(arguments: list) -> bytes:
    """Push-constant bytes: addresses (plain integers, None = 0) as 64 bits, then numbers as 32 bits."""
    layout, values, numbers = "<", [], False
    for argument in arguments:
        wide = argument is None or isinstance(argument, int)
        assert not (wide and numbers), "addresses come before numbers"
        numbers = numbers or not wide
        layout += "Q" if wide else {U32: "I", I32: "i", F32: "f"}[type(argument)]
        values.append((argument or 0) if wide else argument.value)
    return struct.pack(layout, *values)


def constant_word(value: int | bool | float) -> int:
    """The 32-bit pattern of a specialization constant."""
    return struct.unpack("<I", struct.pack("<f", value))[0] if isinstance(value, float) else int(value) & 0xFFFFFFFF
