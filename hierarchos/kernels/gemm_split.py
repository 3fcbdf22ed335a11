"""fp32 products on half-precision matrix units: each operand as the sum of two float16 (shaders/gemm_split.comp).

A float16 has 11 bits, two of them 22, and what the three products of halves leave out is as small; sums are fp32. So the error is that of
an fp32 product whose operands were rounded to 22 bits, less what a long chain of fp32 additions would have added: with k of 64 and more it
is smaller (`python -m validation.bench_split --check`). The split of fp32 operands for matrix units is due to Markidis et al. 2018, the
fp32 sum outside of the units to Ootomo and Yokota 2022.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from hierarchos.kernels.gemm_arguments import addresses, lies_along
from hierarchos.kernels.gemm_layout import Matrix, Product
from hierarchos.kernels.gemm_parts import SECOND_START, SHORTEST_PART, START, part_count, part_length, reduce_launch, sum_microseconds
from hierarchos.kernels.launch import F32, U32, Launch, Profile, Work
from hierarchos.kernels.matrix_units import matrix_shape

PARTS, LOCAL = 128, 1024                            # of the search for the largest magnitude: workgroups, and their invocations
SHORTEST = 256                                      # k from which on the error is surely below that of a chain of fp32 sums
SPLITS = (1, 2, 4, 8, 16)
LAYOUTS = ((False, False), (False, True), (True, False), (True, True))      # whether A and B are stored transposed
SEARCH_BYTES = 2.5e6                                # that are searched in a microsecond


@dataclass(frozen=True)
class SplitTile:
    """Outputs and k of a workgroup, outputs of a subgroup, and tiles held in shared memory (1 or 2).

    rate: operations in a microsecond on one compute unit that has `most` workgroups of it; with w of them in proportion to
    w / (w + 1/2)."""

    m: int
    n: int
    k: int
    warp_m: int
    warp_n: int
    buffers: int = 1
    rate: float = 3e5
    most: int = 1

    @property
    def numbers(self) -> tuple[int, ...]:
        """What tells it from other tiles, also from those of gemm_gpu: no invocation there has 32 rows."""
        return self.m, self.n, self.k, self.warp_m, self.warp_n, self.buffers

    @property
    def subgroups(self) -> int:
        return self.m // self.warp_m * (self.n // self.warp_n)

    def shared_bytes(self, transpose_a: bool, transpose_b: bool, matrix_m: int) -> int:
        """Shared memory: lines of both halves of the operands with 16 bytes of padding each, or the rows of C on their way out."""
        a = self.k * (self.m + 8) if transpose_a else self.m * (self.k + 8)
        b = self.n * (self.k + 8) if transpose_b else self.k * (self.n + 8)
        return max(4 * self.buffers * (a + b), 16 * matrix_m * (self.warp_n // 4 + 1) * self.subgroups)


# Read on an H200 (`python -m validation.bench_split`).
TILES = (SplitTile(128, 128, 32, 64, 32, 1, 6.9e5), SplitTile(64, 64, 32, 32, 32, 1, 5.9e5, 3),
         SplitTile(64, 64, 32, 32, 16, 1, 5.2e5, 2), SplitTile(128, 96, 32, 64, 48, 1, 7.2e5, 2))
MORE_TILES = (SplitTile(128, 128, 32, 32, 32), SplitTile(128, 128, 32, 32, 64), SplitTile(128, 64, 32, 32, 32),
              SplitTile(64, 128, 32, 32, 32), SplitTile(64, 96, 32, 32, 48))           # candidates of the tuner


def usable(k: int, batch: int, profile: Profile) -> bool:
    """Whether the device has matrix units, the program wants them used, and the product suits them."""
    return profile.split and profile.device_class == "gpu" and batch == 1 and k >= SHORTEST and bool(fitting(TILES, profile))


@cache
def fitting(tiles: tuple[SplitTile, ...], profile: Profile) -> tuple[SplitTile, ...]:
    """Those that the device has the matrices, the shared memory and the invocations for."""
    shape = matrix_shape(profile, "f16")
    return tuple(tile for tile in tiles if shape and fits(tile, shape, profile))


def fits(tile: SplitTile, shape: tuple[int, int, int], profile: Profile) -> bool:
    """shape: m, n, k of the device's matrices."""
    invocations = tile.subgroups * profile.subgroup
    return (max(tile.shared_bytes(*t, shape[0]) for t in LAYOUTS) <= profile.shared_bytes and invocations <= 1024
            and tile.warp_m % shape[0] == tile.warp_n % shape[1] == tile.k % shape[2] == 0
            and tile.m * tile.k % (8 * invocations) == tile.n * tile.k % (8 * invocations) == 0)


def microseconds(tile: SplitTile, splits: int, m: int, n: int, k: int, profile: Profile) -> float:
    """About how long a product takes: the search, its busiest compute unit, and the sum of its parts."""
    waves = -(-(-(-m // tile.m) * -(-n // tile.n) * splits) // max(1, profile.compute_units))
    resident = min(waves, tile.most)
    rate = tile.rate * resident / (resident + 0.5) * (tile.most + 0.5) / tile.most
    search = START + SECOND_START + 4.0 * k * (m + n) / SEARCH_BYTES
    return search + START + 2.0 * waves * tile.m * tile.n * part_length(k, splits, tile.k) / rate + sum_microseconds(m, n, 1, splits)


def choose(m: int, n: int, k: int, profile: Profile) -> tuple[SplitTile, int]:
    """(tile, parts of K) that take the least time; a pure function of the shape and the profile."""
    pairs = [(tile, splits) for tile in fitting(TILES, profile) for splits in SPLITS if splits == 1 or k >= splits * SHORTEST_PART]
    return min(pairs, key=lambda pair: microseconds(*pair, m, n, k, profile))


def launches(product: Product, tile: SplitTile, splits: int, profile: Profile,
             workspace: int) -> tuple[list[Launch], int]:
    """Launches of a product (one batch entry), and the workspace when the first `workspace` bytes are taken."""
    transposes = lies_along(product.a, product.m), lies_along(product.b, product.k)
    splits = part_count(product.k, splits, tile.k)
    found = -(-workspace // 256) * 256
    start = found + 8 * PARTS
    search = largest_launch(product, transposes, Work(found, 8 * PARTS, read=False))
    magnitudes = Work(found, 8 * PARTS, write=False)
    if splits == 1:
        return [search, tiled_launch(product, tile, transposes, 1, magnitudes, profile)], start
    nbytes = 4 * splits * product.m * product.n
    plain = Product(product.m, product.n, product.k, product.a, product.b, Matrix(Work(start, nbytes, read=False), product.n, 1))
    return [search, tiled_launch(plain, tile, transposes, splits, magnitudes, profile),
            reduce_launch(product, Work(start, nbytes, write=False), splits, profile)], start + nbytes


def lines(matrix: Matrix, rows: int, columns: int, transposed: bool) -> tuple[int, int, int]:
    """(length, count, step) of the lines in which an operand lies in memory; one line when nothing lies between them."""
    length, count, step = (rows, columns, matrix.column) if transposed else (columns, rows, matrix.row)
    return (length * count, 1, length * count) if step == length else (length, count, step)


def largest_launch(product: Product, transposes: tuple[bool, bool], parts: Work) -> Launch:
    a = lines(product.a, product.m, product.k, transposes[0])
    b = lines(product.b, product.k, product.n, transposes[1])
    return Launch("largest", (PARTS, 1, 2), (product.a.ref, product.b.ref, parts, *map(U32, (*a, *b))), (LOCAL,), "gemm largest operands",
                  0.0, 4.0 * product.k * (product.m + product.n))


def tiled_launch(product: Product, tile: SplitTile, transposes: tuple[bool, bool], splits: int, magnitudes: Work,
                 profile: Profile) -> Launch:
    groups = (-(-product.n // tile.n), -(-product.m // tile.m), splits)
    constants = (tile.subgroups * profile.subgroup, tile.m, tile.n, tile.k, tile.warp_m, tile.warp_n,
                 *matrix_shape(profile, "f16"), tile.buffers, *transposes,
                 product.residual is not None, product.activation, PARTS)
    leading = (product.a.column if transposes[0] else product.a.row, product.b.column if transposes[1] else product.b.row,
               product.c.row, product.residual.row if product.residual else 0)
    numbers = (*map(U32, (product.m, product.n, product.k, *leading)), F32(product.scale),
               *map(U32, (splits, part_length(product.k, splits, tile.k), product.m * product.n)))
    layout, parts = "".join("NT"[t] for t in transposes), f" / {splits}" if splits > 1 else ""
    return Launch("gemm_split", groups, (*addresses(product), magnitudes, *numbers), constants,
                  f"gemm split {layout} {product.m}x{product.n}x{product.k}{parts}", product.operations, product.bytes_moved)


def largest_reference(x: np.ndarray) -> np.float32:
    """Largest magnitude; NaN where there is one."""
    return np.abs(x).max().astype(np.float32)


def split_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """(high, low, power): float32 values of the two halves of power * x."""
    exponent = np.frexp(largest_reference(x))[1] if np.any(x) else 0
    power = 2.0 ** (15 - exponent)
    scaled = (x * np.float32(power)).astype(np.float32)
    high = scaled.astype(np.float16).astype(np.float32)
    return high, (scaled - high).astype(np.float16).astype(np.float32), power
