"""Frozen weights in narrow formats: blocks of 32 values in 32-bit words, computed with as floats.

    fp16, bf16   two values a word                                      2 bytes a value
    int8         scale (float), then four signed bytes a word           1.125 bytes
    int4         halves d and m, then eight nibbles a word: d q + m     0.625 bytes
"""
from __future__ import annotations

import numpy as np

from hierarchos.kernels.launch import U32, In, Launch, Lowering, Operand, Out, Profile

BLOCK = 32
FORMATS = ("fp16", "bf16", "int8", "int4")
WORDS = {"fp16": 16, "bf16": 16, "int8": 9, "int4": 5}


def words_of(count: int, form: str) -> int:
    """32-bit words that hold `count` values."""
    return -(-count // BLOCK) * WORDS[form]


def pack(values: np.ndarray, form: str) -> np.ndarray:
    """u32 words of float32 values in their order; the last block is filled with zeros."""
    flat = np.zeros((-(-values.size // BLOCK), BLOCK), np.float32)
    flat.reshape(-1)[:values.size] = values.reshape(-1)
    return PACK[form](flat).reshape(-1)


def pack_fp16(blocks: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(blocks.astype("<f2")).view("<u4")


def pack_bf16(blocks: np.ndarray) -> np.ndarray:
    """Rounded to nearest, ties to even."""
    bits = blocks.view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    return np.ascontiguousarray(rounded).view("<u4")


def pack_int8(blocks: np.ndarray) -> np.ndarray:
    """The largest value of a block is 127 scales."""
    scale = (np.abs(blocks).max(1, keepdims=True) / np.float32(127)).astype(np.float32)
    q = np.rint(np.divide(blocks, scale, where=scale > 0, out=np.zeros_like(blocks))).clip(-127, 127).astype(np.int8)
    return np.concatenate([scale.view("<u4"), q.view("<u4")], 1)


def pack_int4(blocks: np.ndarray) -> np.ndarray:
    """Sixteen steps from the least to the largest value of a block."""
    least = blocks.min(1, keepdims=True).astype("<f2")
    step = ((blocks.max(1, keepdims=True) - least.astype(np.float32)) / np.float32(15)).astype("<f2")
    wide, low = step.astype(np.float32), least.astype(np.float32)
    q = np.rint(np.divide(blocks - low, wide, where=wide > 0, out=np.zeros_like(blocks))).clip(0, 15).astype(np.uint32)
    words = (q.reshape(len(q), 4, 8) << (4 * np.arange(8, dtype=np.uint32))).sum(2, dtype=np.uint32)
    return np.concatenate([np.concatenate([step, least], 1).view("<u4"), words], 1)


PACK = {"fp16": pack_fp16, "bf16": pack_bf16, "int8": pack_int8, "int4": pack_int4}


def unpacked(words: np.ndarray, form: str, count: int) -> np.ndarray:
    """float32 [count] of packed words: the twin of shaders/unpack.comp."""
    blocks = np.ascontiguousarray(words, "<u4").reshape(-1, WORDS[form])
    if form == "fp16":
        found = blocks.view("<f2").astype(np.float32)
    elif form == "bf16":
        found = (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)
    elif form == "int8":
        found = np.ascontiguousarray(blocks[:, :1]).view(np.float32) * np.ascontiguousarray(blocks[:, 1:]).view(np.int8).astype(np.float32)
    else:
        halves = np.ascontiguousarray(blocks[:, :1]).view("<f2").astype(np.float32)
        q = (blocks[:, 1:, None] >> (4 * np.arange(8, dtype=np.uint32))) & 15
        found = halves[:, :1] * q.reshape(len(q), BLOCK).astype(np.float32) + halves[:, 1:]
    return found.reshape(-1)[:count]


def unpack(form: str, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Input words, output floats."""
    count = outputs[0].size
    local = profile.subgroup if profile.device_class == "cpu" else 128
    groups = -(-count // (BLOCK * local))
    groups = min(groups, 32 * profile.compute_units) if profile.device_class == "cpu" else groups
    rows = -(-groups // profile.max_groups)
    nbytes = 4.0 * (words_of(count, form) + count)
    return Lowering((Launch("unpack", (-(-groups // rows), rows, 1), (In(0), Out(0), U32(count)), (local, FORMATS.index(form)),
                            f"unpack {form}", float(count), nbytes),))
