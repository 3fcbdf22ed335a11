"""Matrix products on GPUs: choice of kernel, tile and split, and launches of gemm_gpu, gemm_reduce and gemv."""
from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from hierarchos.kernels import gemm_split
from hierarchos.kernels.copy import fold_groups
from hierarchos.kernels.gemm_arguments import arguments, lies_along
from hierarchos.kernels.gemm_layout import Matrix, Product
from hierarchos.kernels.gemm_parts import SHORTEST_PART, START, part_count, part_length, reduce_launch, sum_microseconds
from hierarchos.kernels.gemm_split import SplitTile
from hierarchos.kernels.launch import U32, Launch, Profile, Work

VECTOR_ROWS = 4                                     # up to so many rows of A, weights are read once, line by line
LONGEST_CHAIN = 288                                 # FMAs in sequence
MOST_EXACT = 32                                     # compensated sums of an invocation, for the sake of registers
SPLITS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Tile:
    """Outputs and k of a workgroup, outputs of an invocation, slices of k side by side; and how fast it is.

    rate: operations in a microsecond on one compute unit that has very many subgroups of it; half of that with `half` of them."""

    m: int
    n: int
    k: int
    each_m: int
    each_n: int
    slices: int
    rate: float = 4e5
    half: float = 5.0

    @property
    def numbers(self) -> tuple[int, ...]:
        """What tells it from other tiles."""
        return self.m, self.n, self.k, self.each_m, self.each_n, self.slices

    @property
    def invocations(self) -> int:
        return self.slices * self.m * self.n // self.sums

    @property
    def through(self) -> bool:
        """Whether blocks of a long sum are added up in C: sums of their own beside these would not fit into the registers."""
        return self.sums > 96

    @property
    def sums(self) -> int:
        """Of an invocation."""
        return self.each_m * self.each_n

    @property
    def shared_bytes(self) -> int:
        outputs = self.m * self.n
        return max(8 * self.k * (self.m + self.n), 16 * max(1, self.slices // 2) * outputs // self.each_m)

    def count(self, m: int, n: int) -> int:
        return -(-m // self.m) * -(-n // self.n)


@dataclass(frozen=True)
class ProductShape:
    """What the choice of a tile depends on. layout: N or T for A and for B (T: memory runs along the rows' index)."""

    layout: str
    m: int
    n: int
    k: int
    batch: int

    @property
    def operations(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def key(self) -> str:
        return f"{self.layout} {self.m}x{self.n}x{self.k} x{self.batch}"


# Fitted to 26 products of 1.3e8 to 1.4e11 operations on an H200 (`python -m validation.sweep_gemm`): readings within 11 % (rms) of
# `microseconds`, and the choice within 3 % (mean; 12 % at most) of the best of 17 tiles with every split.
TILES = (Tile(128, 128, 16, 8, 8, 1, 4.33e5, 6.25), Tile(64, 64, 16, 8, 8, 1, 3.94e5, 4.99), Tile(64, 64, 16, 4, 4, 1, 2.73e5, 4.5),
         Tile(64, 32, 32, 8, 4, 4, 2.11e5, 3.38))
EXACT_TILES = tuple(tile for tile in TILES if tile.sums <= MOST_EXACT)      # of small products
# Half of the last one, which gives the same bits: for small products, where more workgroups count (NT 512x128x128: 5.2 us beside 7.8).
NARROW = Tile(32, 32, 32, 4, 4, 4, 1.8e5, 1.9)
# Candidates of the tuner (graph/tuning.py) that the model does not know.
MORE_TILES = (Tile(128, 128, 8, 8, 16, 1), Tile(128, 128, 16, 8, 16, 1), Tile(128, 128, 8, 16, 8, 1), Tile(128, 128, 16, 16, 8, 1),
              Tile(256, 128, 8, 16, 8, 1), Tile(128, 64, 16, 8, 8, 1), Tile(64, 128, 16, 8, 16, 1), Tile(128, 64, 16, 16, 8, 1),
              Tile(64, 64, 32, 8, 8, 2), Tile(64, 128, 16, 8, 8, 1), Tile(128, 128, 16, 8, 8, 2), Tile(128, 128, 16, 8, 16, 2),
              Tile(128, 96, 16, 8, 12, 1), Tile(96, 128, 16, 12, 8, 1), Tile(64, 96, 16, 8, 12, 1), Tile(96, 64, 16, 12, 8, 1))
MOST_SUBGROUPS = 17.8                               # of a compute unit at a time


def microseconds(tile: Tile, splits: int, m: int, n: int, k: int, batch: int, profile: Profile) -> float:
    """About how long a product takes: its busiest compute unit, and the sum of its parts."""
    waves = -(-tile.count(m, n) * batch * splits // max(1, profile.compute_units))
    resident = min(waves * tile.invocations / 32, MOST_SUBGROUPS)
    operations = 2.0 * waves * tile.m * tile.n * part_length(k, splits, tile.k)
    return START + operations / (tile.rate * resident / (resident + tile.half)) + sum_microseconds(m, n, batch, splits)


def choose_tile(m: int, n: int, k: int, batch: int, profile: Profile, tiles: tuple[Tile, ...] = TILES) -> tuple[Tile, int]:
    """(tile, parts that K is split into): the pair that takes the least time.

    A pure function of the shape and the profile, so that the order of summation is the same in every run."""
    fitting = [tile for tile in tiles if tile.shared_bytes <= profile.shared_bytes]
    assert fitting, f"no tile fits {profile.shared_bytes} bytes of shared memory"
    pairs = [(tile, splits) for tile in fitting for splits in SPLITS if splits == 1 or k >= splits * SHORTEST_PART]
    return min(pairs, key=lambda pair: microseconds(*pair, m, n, k, batch, profile))


def lower(product: Product, profile: Profile, workspace: int) -> tuple[list[Launch], int]:
    """Launches of one product, and the workspace in bytes when the first `workspace` of it are taken."""
    transpose_a, transpose_b = lies_along(product.a, product.m), lies_along(product.b, product.k)
    layout = ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    if product.m <= VECTOR_ROWS and transpose_b and not transpose_a and product.k >= profile.subgroup:
        return [vector_launch(product, profile, f"gemm {layout} {product.m}x{product.n}x{product.k}")], workspace
    shape = ProductShape(layout, product.m, product.n, product.k, product.batch)
    return launches(product, *choice(shape, profile), profile, workspace)


def choice(shape: ProductShape, profile: Profile) -> tuple[Tile | SplitTile, int]:
    """Tile and parts of a product: what was measured on the device, else what the models say. Small ones are not measured, for the sake of
    their sums."""
    measured = tuned(profile.tuned).get(shape.key) if shape.operations >= profile.exact_below else None
    if measured and (isinstance(measured[0], Tile) or gemm_split.usable(shape.k, shape.batch, profile)):
        return measured
    return expected(shape, profile)


def expected(shape: ProductShape, profile: Profile) -> tuple[Tile | SplitTile, int]:
    """The choice that takes the least time by the models of both kernels; a pure function of the shape and the profile."""
    sizes = shape.m, shape.n, shape.k
    if shape.operations < profile.exact_below:
        return narrowed(*choose_tile(*sizes, shape.batch, profile, EXACT_TILES), shape, profile)
    plain = choose_tile(*sizes, shape.batch, profile)
    if not gemm_split.usable(shape.k, shape.batch, profile):
        return plain
    split = gemm_split.choose(*sizes, profile)
    return split if gemm_split.microseconds(*split, *sizes, profile) < microseconds(*plain, *sizes, shape.batch, profile) else plain


def narrowed(tile: Tile, splits: int, shape: ProductShape, profile: Profile) -> tuple[Tile, int]:
    """The same choice with a narrower tile where that is faster."""
    tiles = (tile, NARROW) if tile is TILES[-1] else (tile,)
    return min(tiles, key=lambda t: microseconds(t, splits, shape.m, shape.n, shape.k, shape.batch, profile)), splits


@cache
def tuned(entries: tuple[tuple[str, tuple[int, ...]], ...]) -> dict[str, tuple[Tile | SplitTile, int]]:
    """`Profile.tuned` as choices; what no longer names a tile is left out."""
    known = {tile.numbers: tile for tile in (*TILES, *MORE_TILES, *gemm_split.TILES, *gemm_split.MORE_TILES)}
    return {key: (known[tuple(numbers)], parts) for key, (*numbers, parts) in entries if tuple(numbers) in known}


def launches(product: Product, tile: Tile | SplitTile, splits: int, profile: Profile, workspace: int) -> tuple[list[Launch], int]:
    """A product with this tile and so many parts of K."""
    if isinstance(tile, SplitTile):
        return gemm_split.launches(product, tile, splits, profile, workspace)
    transpose_a, transpose_b = lies_along(product.a, product.m), lies_along(product.b, product.k)
    name = f"gemm {'T' if transpose_a else 'N'}{'T' if transpose_b else 'N'} {product.m}x{product.n}x{product.k}"
    splits = part_count(product.k, splits, tile.k)
    if splits == 1:
        return [tiled_launch(product, tile, transpose_a, transpose_b, 1, name, profile)], workspace
    part_bytes = 4 * product.batch * product.m * product.n
    start = -(-workspace // 256) * 256
    parts = Work(start, splits * part_bytes, read=False)
    entry = product.m * product.n
    target = Matrix(parts, product.n, 1, product.inner * entry, entry)
    plain = Product(product.m, product.n, product.k, product.a, product.b, target, product.outer, product.inner)
    made = [tiled_launch(plain, tile, transpose_a, transpose_b, splits, f"{name} / {splits}", profile),
            reduce_launch(product, Work(start, splits * part_bytes, write=False), splits, profile)]
    return made, start + splits * part_bytes


def block_length(part: int, tile: Tile) -> int:
    """k of one block of a sum over `part` k: equal blocks in whole steps, of at most LONGEST_CHAIN for each slice, or a step more."""
    count = -(-part // (LONGEST_CHAIN * tile.slices))
    return -(-part // (count * tile.k)) * tile.k


def tiled_launch(product: Product, tile: Tile, transpose_a: bool, transpose_b: bool, splits: int, name: str, profile: Profile) -> Launch:
    part = part_length(product.k, splits, tile.k)
    exact = product.operations < profile.exact_below and tile.sums <= MOST_EXACT
    block = part if exact else block_length(part, tile)
    groups = (-(-product.n // tile.n), -(-product.m // tile.m), product.batch * splits)
    constants = (tile.invocations, tile.m, tile.n, tile.k, tile.each_m, tile.each_n, transpose_a, transpose_b,
                 product.residual is not None, product.activation, tile.slices, part > block, tile.through and part > block, exact)
    more = (U32(splits), U32(part), U32(product.batch * product.m * product.n), U32(block))
    return Launch("gemm_gpu", groups, (*arguments(product, transpose_a, transpose_b), *more), constants, name,
                  product.operations, product.bytes_moved)


def vector_launch(product: Product, profile: Profile, name: str) -> Launch:
    subgroups = max(1, 128 // profile.subgroup)
    x, y, _ = fold_groups(product.n, subgroups, profile)
    return Launch("gemv", (x, y, product.batch), arguments(product, False, True),
                  (subgroups * profile.subgroup, product.m, product.activation), name, product.operations, product.bytes_moved)
