"""Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

A draw is a pure function of (element index, stream, seed): nothing is stored, forward and backward recompute the same bits, and a
resumed run continues exactly. `shaders/include/random.glsl` is the twin.
"""
from __future__ import annotations

import numpy as np

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
MASK = np.uint64(0xFFFFFFFF)


def philox_reference(counter: list[np.ndarray], key: tuple[int, int]) -> list[np.ndarray]:
    """Four u32 arrays from four u32 counter arrays and a key of two words."""
    c = [np.asarray(word, np.uint64) for word in counter]
    k = [int(key[0]), int(key[1])]
    for _ in range(ROUNDS):
        low, high = c[0] * np.uint64(MULTIPLIERS[0]), c[2] * np.uint64(MULTIPLIERS[1])
        c = [(high >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), high & MASK, (low >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), low & MASK]
        k = [(k[0] + WEYL[0]) & 0xFFFFFFFF, (k[1] + WEYL[1]) & 0xFFFFFFFF]
    return [word.astype(np.uint32) for word in c]


def random_bits_reference(index: np.ndarray, stream: int, seed: tuple[int, int]) -> np.ndarray:
    """One u32 for each element index: word `index % 4` of the Philox block with counter (index // 4, stream, 0, 0)."""
    index = np.asarray(index, np.uint32)
    block, zero = index >> np.uint32(2), np.zeros_like(index)
    words = philox_reference([block, np.full_like(index, stream), zero, zero], seed)
    return np.choose(index & np.uint32(3), words)


def keep_threshold(probability: float) -> int:
    """An element is dropped when its 32 random bits are below this: probability in steps of 2^-32."""
    return min(round(probability * 2.0**32), 2**32 - 1)


def dropout_reference(x: np.ndarray, probability: float, stream: int, seed: tuple[int, int]) -> np.ndarray:
    """x / (1 - p) where kept, 0 where dropped; the element index is the row-major index into x."""
    bits = random_bits_reference(np.arange(x.size, dtype=np.uint32), stream, seed).reshape(x.shape)
    scale = x.dtype.type(1.0 / (1.0 - probability))
    return np.where(bits >= np.uint32(keep_threshold(probability)), x * scale, x.dtype.type(0))
