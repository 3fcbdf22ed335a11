"""How the operands of a matrix product lie in memory, and copies of those that no kernel can walk."""
from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from hierarchos.kernels.copy import strided_copy
from hierarchos.kernels.launch import In, Launch, Operand, Out, Profile, Ref, Work, row_major

ACTIVATIONS = ("none", "relu", "silu", "gelu", "gelu_tanh")      # in the order of their numbers in shaders/include/activation.glsl

@dataclass(frozen=True)
class Matrix:
    """A batch of matrices: element strides of rows and columns, and of the outer and inner batch axes (0 = shared)."""

    ref: Ref
    row: int
    column: int
    outer: int = 0
    inner: int = 0

    @property
    def transposed(self) -> Matrix:
        return replace(self, row=self.column, column=self.row)


@dataclass(frozen=True)
class Product:
    """C [m,n] = activation(scale * A [m,k] B [k,n] + bias + residual) for outer x inner batch entries.

    `a` and `b` are as they enter the product: transposes are already in their strides."""

    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    c: Matrix
    outer: int = 1
    inner: int = 1
    bias: Ref | None = None
    residual: Matrix | None = None
    in_place: bool = False
    activation: int = 0
    scale: float = 1.0

    @property
    def batch(self) -> int:
        return self.outer * self.inner

    @property
    def operations(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def bytes_moved(self) -> float:
        return 4.0 * self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)


@dataclass
class View:
    """An operand as batch axes x rows x columns, before batch axes are merged."""

    ref: Ref
    batch: tuple[int, ...]
    rows: int
    columns: int
    batch_strides: tuple[int, ...]
    row: int
    column: int

    @property
    def walkable(self) -> bool:
        """One of the two matrix axes has unit stride (or one element)."""
        return self.column == 1 or self.row == 1 or self.rows == 1 or self.columns == 1


def merged_stride(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """Stride that walks all these axes as one, or None."""
    axes = [(extent, stride) for extent, stride in zip(shape, strides, strict=True) if extent != 1]
    for (_, outer_stride), (extent, stride) in pairwise(axes):
        if outer_stride != extent * stride:
            return None
    return axes[-1][1] if axes else 0


def view(ref: Ref, operand: Operand, fold: bool) -> View | None:
    """The operand as a batch of matrices; None when its folded rows have no single stride."""
    shape, strides = operand.shape, operand.strides
    if not fold:
        return View(ref, shape[:-2], shape[-2], shape[-1], strides[:-2], strides[-2], strides[-1])
    row = merged_stride(shape[:-1], strides[:-1])
    if row is None:
        return None
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
    return View(ref, (), rows, shape[-1], (), row, strides[-1])


class Copies:
    """Contiguous copies of operands in the node's workspace."""

    def __init__(self, profile: Profile):
        self.profile, self.launches, self.nbytes = profile, [], 0

    def contiguous(self, ref: Ref, operand: Operand) -> tuple[Ref, Operand]:
        packed = row_major(operand.shape)
        target = Work(self.nbytes, operand.nbytes, read=False)
        self.launches += strided_copy(ref, target, operand.shape, operand.strides, packed, self.profile, "gemm operand copy", operand.dtype)
        self.nbytes += -(-operand.nbytes // 256) * 256
        return replace(target, read=True, write=False), replace(operand, strides=packed)

    def view(self, ref: Ref, operand: Operand, fold: bool) -> View:
        """A view that kernels can walk, of a copy when the operand itself cannot be."""
        found = view(ref, operand, fold)
        if found is None or not found.walkable:
            found = view(*self.contiguous(ref, operand), fold)
        return found


def merge_batch(batch: tuple[int, ...], strides: list[tuple[int, ...]]) -> list[tuple[int, tuple[int, ...]]]:
    """Batch axes merged where every operand walks them as one: [(extent, stride of each operand)]."""
    axes: list[tuple[int, tuple[int, ...]]] = []
    for extent, *steps in zip(batch, *strides, strict=True):
        if extent == 1:
            continue
        if axes and all(before == extent * step for before, step in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = (axes[-1][0] * extent, tuple(steps))
        else:
            axes.append((extent, tuple(steps)))
    return axes


def product_of(op, inputs: list[Operand], output: Operand, profile: Profile) -> tuple[Product, list[Launch], int]:
    """The product that a MatMul node computes, the copies to make first, and their bytes of workspace."""
    copies = Copies(profile)
    residual_at = len(inputs) - 1
    sources = [(In(0), inputs[0]), (In(1), inputs[1])] + [(In(residual_at), inputs[residual_at])] * op.has_residual
    c = view(Out(0, read=op.accumulate), output, op.fold and not op.transpose_a)
    assert c is not None and (c.column == 1 or c.columns == 1), f"matmul cannot write into strides {output.strides}"
    fold = [op.fold, op.fold, op.fold and not op.transpose_a]
    views = [copies.view(ref, operand, f) for (ref, operand), f in zip(sources, fold, strict=False)]
    if op.has_residual and not (views[2].column == 1 or views[2].columns == 1):
        views[2] = view(*copies.contiguous(*sources[2]), fold[2])
    shared = [v if len(v.batch) == len(c.batch) else replace_batch(v, len(c.batch)) for v in [*views, c]]
    axes = merge_batch(c.batch, [v.batch_strides for v in shared])
    if len(axes) > 2:                                          # copies make every operand one batch axis
        shared[:-1] = [v if set(v.batch_strides) == {0} else view(*copies.contiguous(*source), f)
                       for v, source, f in zip(shared[:-1], sources, fold, strict=False)]
        axes = merge_batch(c.batch, [v.batch_strides for v in shared])
    while len(axes) < 2:
        axes.insert(0, (1, (0,) * len(shared)))
    (outer, outer_strides), (inner, inner_strides) = axes
    matrices = [Matrix(v.ref, v.row, v.column, o, i) for v, o, i in zip(shared, outer_strides, inner_strides, strict=True)]
    a = matrices[0].transposed if op.transpose_a else matrices[0]
    b = matrices[1].transposed if op.transpose_b else matrices[1]
    k = views[0].rows if op.transpose_a else views[0].columns
    product = Product(c.rows, c.columns, k, a, b, matrices[-1], outer, inner, In(2) if op.has_bias else None,
                      matrices[2] if op.has_residual else None, op.accumulate, ACTIVATIONS.index(op.activation), op.scale)
    return product, copies.launches, copies.nbytes


def replace_batch(v: View, rank: int) -> View:
    """A shared matrix: the same for every batch entry."""
    return replace(v, batch=(1,) * rank, batch_strides=(0,) * rank)
