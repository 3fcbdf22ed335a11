"""Matrix products on GPUs: tile and split choice, and launches of gemm_gpu, gemm_reduce and gemv."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.kernels.copy import fold_groups
from hierarchos.kernels.gemm_arguments import arguments, lies_along
from hierarchos.kernels.gemm_layout import Matrix, Product
from hierarchos.kernels.launch import F32, U32, Launch, Profile, Work

VECTOR_ROWS = 4                                     # up to so many rows of A, weights are read once, line by line
LOCAL = 256
SHORTEST_PART = 256                                 # k of one part of a split product, at least
SPLITS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Tile:
    """Outputs and k of a workgroup, outputs of an invocation, and its speed beside the fastest when the device is full."""

    m: int
    n: int
    k: int
    each_m: int
    each_n: int
    speed: float

    @property
    def invocations(self) -> int:
        return self.m * self.n // (self.each_m * self.each_n)

    @property
    def shared_bytes(self) -> int:
        return 2 * self.k * (self.m + self.n + 8) * 4

    def count(self, m: int, n: int) -> int:
        return -(-m // self.m) * -(-n // self.n)


# Speeds: H200, 4096^3 and 1024^3 fp32 probes (41.7, 39, 24-26 TFLOP/s); the smallest by its ratio of loads to products.
TILES = (Tile(128, 256, 8, 8, 16, 1.0), Tile(128, 128, 8, 8, 8, 0.93), Tile(64, 64, 16, 4, 4, 0.6), Tile(32, 32, 16, 4, 4, 0.3))
MANY_UNITS = 64                                     # the largest tile needs 200 registers an invocation: only where units are many


def choose_tile(m: int, n: int, k: int, batch: int, profile: Profile) -> tuple[Tile, int]:
    """(tile, parts that K is split into): the pair that keeps the compute units busiest with useful work.

    A pure function of the shape and the profile, so that the order of summation is the same in every run."""
    units = max(1, profile.compute_units)
    best, best_score = None, 0.0
    for tile in TILES:
        if tile.shared_bytes > profile.shared_bytes or (tile is TILES[0] and units < MANY_UNITS):
            continue
        useful = m * n / (tile.count(m, n) * tile.m * tile.n)
        for splits in SPLITS:
            if splits > 1 and k < splits * SHORTEST_PART:
                break
            groups = tile.count(m, n) * batch * splits
            waves = -(-groups // units)
            second_stage = 1.0 if splits == 1 else 0.85
            score = tile.speed * useful * second_stage * groups / (waves * units)
            if score > best_score * 1.001:
                best, best_score = (tile, splits), score
    assert best is not None, f"no tile fits {profile.shared_bytes} bytes of shared memory"
    return best


def lower(product: Product, profile: Profile, workspace: int) -> tuple[list[Launch], int]:
    """Launches of one product, and the workspace in bytes when the first `workspace` of it are taken."""
    transpose_a, transpose_b = lies_along(product.a, product.m), lies_along(product.b, product.k)
    name = f"gemm {'T' if transpose_a else 'N'}{'T' if transpose_b else 'N'} {product.m}x{product.n}x{product.k}"
    if product.m <= VECTOR_ROWS and transpose_b and not transpose_a and product.k >= profile.subgroup:
        return [vector_launch(product, profile, name)], workspace
    tile, splits = choose_tile(product.m, product.n, product.k, product.batch, profile)
    splits = -(-product.k // part_length(product.k, splits, tile))     # rounding up may leave the last ones empty
    if splits == 1:
        return [tiled_launch(product, tile, transpose_a, transpose_b, 1, name)], workspace
    part_bytes = 4 * product.batch * product.m * product.n
    start = -(-workspace // 256) * 256
    parts = Work(start, splits * part_bytes, read=False)
    entry = product.m * product.n
    target = Matrix(parts, product.n, 1, product.inner * entry, entry)
    plain = Product(product.m, product.n, product.k, product.a, product.b, target, product.outer, product.inner)
    launches = [tiled_launch(plain, tile, transpose_a, transpose_b, splits, f"{name} / {splits}"),
                reduce_launch(product, Work(start, splits * part_bytes, write=False), splits, profile)]
    return launches, start + splits * part_bytes


def part_length(k: int, splits: int, tile: Tile) -> int:
    """k of each part but the last, in whole steps of the tile."""
    return -(-k // (splits * tile.k)) * tile.k


def block(tile: Tile) -> int:
    """k of one chain of FMAs, after which the sums are added to C: that traffic weighs more in the largest tile."""
    return 512 if tile is TILES[0] else 256


def tiled_launch(product: Product, tile: Tile, transpose_a: bool, transpose_b: bool, splits: int, name: str) -> Launch:
    part = part_length(product.k, splits, tile)
    groups = (-(-product.n // tile.n), -(-product.m // tile.m), product.batch * splits)
    constants = (tile.invocations, tile.m, tile.n, tile.k, tile.each_m, tile.each_n, transpose_a, transpose_b,
                 product.residual is not None, product.activation)
    more = (U32(splits), U32(part), U32(product.batch * product.m * product.n), U32(block(tile)))
    return Launch("gemm_gpu", groups, (*arguments(product, transpose_a, transpose_b), *more), constants, name,
                  product.operations, product.bytes_moved)


def reduce_launch(product: Product, parts: Work, splits: int, profile: Profile) -> Launch:
    x, y, _ = fold_groups(product.m * product.n, LOCAL, profile)
    residual = product.residual or Matrix(product.c.ref, 0, 1)
    sizes = (product.m, product.n, splits, product.batch * product.m * product.n, product.c.row, residual.row, product.inner,
             product.c.outer, product.c.inner, residual.outer, residual.inner)
    return Launch("gemm_reduce", (x, y, product.batch),
                  (parts, product.c.ref, product.bias, product.residual and product.residual.ref, *map(U32, sizes), F32(product.scale)),
                  (LOCAL, product.activation), "gemm sum of parts", 0.0, float(parts.nbytes))


def vector_launch(product: Product, profile: Profile, name: str) -> Launch:
    subgroups = max(1, 128 // profile.subgroup)
    x, y, _ = fold_groups(product.n, subgroups, profile)
    return Launch("gemv", (x, y, product.batch), arguments(product, False, True),
                  (subgroups * profile.subgroup, product.m, product.activation), name, product.operations, product.bytes_moved)
