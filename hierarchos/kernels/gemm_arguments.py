"""Push constants of the matrix product kernels (shaders/include/gemm.glsl)."""
from __future__ import annotations

from hierarchos.kernels.gemm_layout import Matrix, Product
from hierarchos.kernels.launch import F32, U32, Argument


def lies_along(matrix: Matrix, rows: int) -> bool:
    """Whether memory runs along the rows' index (a transposed store): its column stride is the leading dimension."""
    return matrix.column != 1 and (matrix.row == 1 or rows == 1)


def batch_strides(product: Product) -> tuple[Argument, ...]:
    residual = product.residual or Matrix(product.c.ref, 0, 1)
    matrices = (product.a, product.b, product.c, residual)
    return (U32(product.inner), *(U32(stride) for x in matrices for stride in (x.outer, x.inner)))


def addresses(product: Product) -> tuple[Argument, ...]:
    return (product.a.ref, product.b.ref, product.c.ref, product.bias, product.residual and product.residual.ref)


def arguments(product: Product, transpose_a: bool, transpose_b: bool) -> tuple[Argument, ...]:
    """For the tiled kernels: leading dimensions."""
    leading = (product.a.column if transpose_a else product.a.row, product.b.column if transpose_b else product.b.row,
               product.c.row, product.residual.row if product.residual else 0)
    sizes = (product.m, product.n, product.k, *leading)
    return (*addresses(product), *map(U32, sizes), *batch_strides(product), F32(product.scale))


def strided_arguments(product: Product) -> tuple[Argument, ...]:
    """For gemm_simple: both strides of both operands."""
    sizes = (product.m, product.n, product.k, product.a.row, product.a.column, product.b.row, product.b.column,
             product.c.row, product.residual.row if product.residual else 0)
    return (*addresses(product), *map(U32, sizes), *batch_strides(product), F32(product.scale))
