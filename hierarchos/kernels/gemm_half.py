"""Matrix products of half operands: on matrix units where the device has them, else widened and multiplied in fp32.

Both ways round the operands to the format once and sum in fp32; only the order of the sums differs.
"""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.kernels.gemm_arguments import arguments, lies_along
from hierarchos.kernels.gemm_layout import Matrix, Product, product_of
from hierarchos.kernels.gemm_parts import SHORTEST_PART, part_count, part_length, reduce_launch
from hierarchos.kernels.half_shader import half_shader
from hierarchos.kernels.launch import U32, Launch, Lowering, Operand, Profile, Work
from hierarchos.kernels.matrix_units import matrix_shape
from hierarchos.kernels.widen import lower_widened

SPLITS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Tile:
    """Outputs and k of a workgroup, outputs of a subgroup, and tiles held in shared memory (1 or 2).

    rates: operations in a microsecond on one compute unit that has `most` workgroups of it, by layout (NN, NT, TN, TT); with w
    workgroups in proportion to w / (w + half)."""

    m: int
    n: int
    k: int
    warp_m: int
    warp_n: int
    buffers: int = 2
    rates: tuple[float, ...] = (1.7e6, 1.7e6, 1.7e6, 1.7e6)
    most: int = 2
    half: float = 2.0

    @property
    def subgroups(self) -> int:
        return self.m // self.warp_m * (self.n // self.warp_n)

    def shared_bytes(self, transpose_a: bool, transpose_b: bool, matrix_m: int) -> int:
        """Shared memory: lines of operands with 16 bytes of padding each, or the rows of C on their way out."""
        a = (self.k * (self.m + 8)) if transpose_a else self.m * (self.k + 8)
        b = (self.n * (self.k + 8)) if transpose_b else self.k * (self.n + 8)
        return max(2 * self.buffers * (a + b), 16 * matrix_m * (self.warp_n // 4 + 1) * self.subgroups)


# Rates as read on an H200 (`python -m validation.bench_half`).
TILES = (Tile(128, 128, 64, 64, 64, 1, (2.20e6, 2.56e6, 2.23e6, 2.2e6)),
         Tile(128, 128, 32, 64, 64, 2, (2.05e6, 1.98e6, 2.36e6, 2.0e6)),
         Tile(128, 256, 32, 64, 64, 1, (2.04e6, 1.76e6, 2.24e6, 1.8e6), 1),
         Tile(128, 192, 32, 64, 48, 1, (1.97e6, 1.76e6, 2.10e6, 1.8e6), 1),
         Tile(128, 128, 64, 64, 32, 1, (1.97e6, 2.00e6, 2.03e6, 2.0e6)),
         Tile(64, 96, 32, 32, 48, 2, (1.50e6, 1.34e6, 1.62e6, 1.3e6), 4),
         Tile(64, 64, 32, 32, 32, 2, (1.34e6, 1.16e6, 1.50e6, 1.2e6), 6),
         Tile(32, 32, 32, 16, 16, 2, (0.58e6,) * 4, 8))
EPILOGUE = 192                                      # k whose products take as long as storing the outputs


def lower_half_matmul(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Launches of a HalfMatMul node."""
    shape = matrix_shape(profile, inputs[0].dtype)
    if shape is None or profile.device_class != "gpu":
        return lower_widened(op.wide, inputs, outputs, profile)
    product, copies, workspace = product_of(op, inputs, outputs[0], profile)
    launches, workspace = lower_half_product(product, inputs[0].dtype, outputs[0].dtype, profile, workspace)
    return Lowering((*copies, *launches), workspace)


def lower_half_product(product: Product, dtype: str, result: str, profile: Profile, workspace: int = 0) -> tuple[list[Launch], int]:
    """Launches of one product of half operands on matrix units, and the workspace when the first `workspace` bytes are taken."""
    transposes = lies_along(product.a, product.m), lies_along(product.b, product.k)
    tile, splits = choose_tile(product, transposes, matrix_shape(profile, dtype), result, profile)
    splits = part_count(product.k, splits, tile.k)
    if splits == 1:
        return [tiled_launch(product, tile, transposes, 1, dtype, result, profile)], workspace
    entry = product.m * product.n
    start, nbytes = -(-workspace // 256) * 256, 4 * splits * product.batch * entry
    target = Matrix(Work(start, nbytes, read=False), product.n, 1, product.inner * entry, entry)
    plain = Product(product.m, product.n, product.k, product.a, product.b, target, product.outer, product.inner)
    launches = [tiled_launch(plain, tile, transposes, splits, dtype, "f32", profile),
                reduce_launch(product, Work(start, nbytes, write=False), splits, profile)]
    return launches, start + nbytes


def choose_tile(product: Product, transposes: tuple[bool, bool], shape: tuple[int, int, int], result: str,
                profile: Profile) -> tuple[Tile, int]:
    """(tile, parts of K) that take the least time by `microseconds`; a pure function of the shape and the profile."""
    fitting = [tile for tile in TILES if tile.shared_bytes(*transposes, shape[0]) <= profile.shared_bytes
               and tile.warp_m % shape[0] == tile.warp_n % shape[1] == tile.k % shape[2] == 0]
    assert fitting, f"no tile fits {profile.shared_bytes} bytes of shared memory"
    parts = [n for n in SPLITS if n == 1 or (result == "f32" and product.k >= n * SHORTEST_PART)]
    return min(((tile, n) for tile in fitting for n in parts), key=lambda pair: microseconds(*pair, product, transposes, profile))


def microseconds(tile: Tile, splits: int, product: Product, transposes: tuple[bool, bool], profile: Profile) -> float:
    """About how long a product takes: its busiest compute unit, and the sum of its parts."""
    tiles = -(-product.m // tile.m) * -(-product.n // tile.n) * product.batch * splits
    waves = -(-tiles // max(1, profile.compute_units))
    second = 0.0 if splits == 1 else 2.0 + 4.0 * product.batch * product.m * product.n * (splits + 1) / 2e6
    resident = min(waves, tile.most)
    rate = tile.rates[2 * transposes[0] + transposes[1]] * resident / (resident + tile.half) * (tile.most + tile.half) / tile.most
    return 2.5 + 2.0 * waves * tile.m * tile.n * (part_length(product.k, splits, tile.k) + EPILOGUE) / rate + second


def tiled_launch(product: Product, tile: Tile, transposes: tuple[bool, bool], splits: int, dtype: str, result: str,
                 profile: Profile) -> Launch:
    groups = (-(-product.n // tile.n), -(-product.m // tile.m), product.batch * splits)
    constants = (tile.subgroups * profile.subgroup, tile.m, tile.n, tile.k, tile.warp_m, tile.warp_n, *matrix_shape(profile, dtype),
                 tile.buffers, *transposes, product.residual is not None, product.activation, result != "f32", dtype == "bf16")
    more = (U32(splits), U32(part_length(product.k, splits, tile.k)), U32(product.batch * product.m * product.n))
    layout, parts = "".join("NT"[t] for t in transposes), f" / {splits}" if splits > 1 else ""
    name = f"gemm {dtype} {layout} {product.m}x{product.n}x{product.k}{parts}"
    return Launch(half_shader("gemm_half", dtype), groups, (*arguments(product, *transposes), *more), constants, name,
                  product.operations, product.bytes_moved / 2)
