"""Kernels on matrix units exist as f16 SPIR-V; the bf16 ones are the same code over another number type, made here.

A kernel compiled for f16 uses that type only as the component of cooperative matrices (memory holds halves as integers), so changing the
type is all: OpTypeFloat 16 gets the encoding BFloat16KHR, with the capabilities and the extension that it needs (SPV_KHR_bfloat16).
No compiler that knows bfloat16 is needed, and both formats have one source.
"""
from __future__ import annotations

import struct
from functools import cache

from hierarchos.kernels.spirv import CAPABILITY, MAGIC, TYPE_FLOAT, instructions, string
from hierarchos.resources import resource
from hierarchos.vulkan import Shader

EXTENSION, FLOAT16, BFLOAT16_ENCODING = 10, 9, 0
BFLOAT16_TYPE, BFLOAT16_MATRIX = 5116, 5118         # capabilities


@cache
def half_shader(name: str, dtype: str) -> Shader:
    """shaders/NAME.comp for operands of a half format, "f16" or "bf16"."""
    path = resource("shaders/spirv") / f"{name}.spv"
    code = path.read_bytes()
    return Shader(name, code) if dtype == "f16" else Shader(f"{name} bf16", bfloat_code(code))


def bfloat_code(code: bytes) -> bytes:
    """The module with bfloat16 in place of float16."""
    head, words = struct.unpack_from("<5I", code), []
    for instruction in instructions(code):
        for changed in _changed(instruction):
            words += [len(changed) << 16 | changed[0], *changed[1:]]
    assert head[0] == MAGIC
    return struct.pack(f"<{5 + len(words)}I", *head, *words)


def _changed(instruction: tuple[int, ...]) -> list[tuple[int, ...]]:
    if instruction == (CAPABILITY, FLOAT16):
        return [(CAPABILITY, BFLOAT16_TYPE), (CAPABILITY, BFLOAT16_MATRIX)]
    if instruction[0] == EXTENSION and instruction == (EXTENSION, *string("SPV_KHR_cooperative_matrix")):
        return [instruction, (EXTENSION, *string("SPV_KHR_bfloat16"))]
    if instruction[0] == TYPE_FLOAT and instruction[2] == 16:
        return [(*instruction, BFLOAT16_ENCODING)]
    return [instruction]
