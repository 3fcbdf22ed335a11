"""Matrix products on CPU drivers: shaders/gemm_cpu.comp, one subgroup a tile."""
from __future__ import annotations

from hierarchos.kernels.gemm_arguments import arguments, lies_along
from hierarchos.kernels.gemm_layout import Product
from hierarchos.kernels.launch import Launch, Profile

LANES = 8
LARGE = 2.5e8                                       # operations from which 0.9 s more to compile the kernel buy 8 to 12 % of speed


def choose_tile(m: int, n: int, k: int, batch: int, transpose_a: bool, profile: Profile) -> tuple[int, int]:
    """(rows, vectors of 8 columns) of a tile.

    Large tiles load less for each product, and small ones give every core something to do. Few of them, because a CPU driver
    takes 0.1 to 1.4 s to compile one for the first time."""
    if m <= 8 and not transpose_a:
        return 8, 8
    if m <= 16 or n <= 32 or batch * -(-n // 64) * -(-m // 32) < profile.compute_units:
        return 16, 4
    large = 2.0 * batch * m * n * k >= LARGE and m % 64 == 0 and n % 64 == 0
    return (64 if large and batch * n * m // 4096 >= 2 * profile.compute_units else 32), 8


def lower(product: Product, profile: Profile) -> list[Launch]:
    """One launch; the shape must be one that the tiled kernel takes (see `gemm.tiled`)."""
    transpose_a, transpose_b = lies_along(product.a, product.m), lies_along(product.b, product.k)
    rows, vectors = choose_tile(product.m, product.n, product.k, product.batch, transpose_a, profile)
    columns = 8 * vectors
    fits = product.m % rows == 0 and product.n % columns == 0
    rereads = product.in_place or product.activation != 0       # C is read again, so no two tiles may share outputs
    edge = product.m < rows or product.n < columns or (rereads and not fits)
    groups = (-(-product.n // columns), -(-product.m // rows), product.batch)
    constants = (LANES, rows, vectors, transpose_a, transpose_b, edge, product.residual is not None, product.activation)
    name = f"gemm {'T' if transpose_a else 'N'}{'T' if transpose_b else 'N'} {product.m}x{product.n}x{product.k}"
    return [Launch("gemm_cpu", groups, arguments(product, transpose_a, transpose_b), constants, name,
                   product.operations, product.bytes_moved)]
