"""Products whose k is split into parts that are added up by a second launch: what all matrix kernels of GPUs have in common."""
from __future__ import annotations

from hierarchos.kernels.copy import fold_groups
from hierarchos.kernels.gemm_layout import Matrix, Product
from hierarchos.kernels.launch import F32, U32, Launch, Profile, Work

LOCAL = 256
SHORTEST_PART = 128                                 # k of one part, at least
START, SECOND_START = 2.7, 1.2                      # microseconds of a launch, and of adding the parts (H200)
SECOND_BYTES = 1.26e6                               # that are added in a microsecond


def part_length(k: int, splits: int, step: int) -> int:
    """k of each part but the last, in whole steps of a tile."""
    return -(-k // (splits * step)) * step


def part_count(k: int, splits: int, step: int) -> int:
    """Parts that are not empty: rounding up to whole steps may leave the last ones so."""
    return -(-k // part_length(k, splits, step))


def sum_microseconds(m: int, n: int, batch: int, splits: int) -> float:
    """About how long the second launch takes; 0 without one."""
    return 0.0 if splits == 1 else SECOND_START + 4.0 * batch * m * n * (splits + 1) / SECOND_BYTES


def reduce_launch(product: Product, parts: Work, splits: int, profile: Profile) -> Launch:
    x, y, _ = fold_groups(product.m * product.n, LOCAL, profile)
    residual = product.residual or Matrix(product.c.ref, 0, 1)
    sizes = (product.m, product.n, splits, product.batch * product.m * product.n, product.c.row, residual.row, product.inner,
             product.c.outer, product.c.inner, residual.outer, residual.inner)
    return Launch("gemm_reduce", (x, y, product.batch),
                  (parts, product.c.ref, product.bias, product.residual and product.residual.ref, *map(U32, sizes), F32(product.scale)),
                  (LOCAL, product.activation), "gemm sum of parts", 0.0, float(parts.nbytes))
