"""Matrix products: batched, folded (a linear layer over any leading axes), with transposes and an epilogue.

    C = activation(scale * op(A) op(B) + bias + residual)

op(X) is X, or X with its last two axes exchanged.
"""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Alias, Op, ShapeError, apply
from hierarchos.graph.tensor import Spec, Tensor
from hierarchos.kernels.gemm_layout import ACTIVATIONS


@dataclass(frozen=True)
class MatMul(Op):
    """Inputs: a, b, then `bias` [N] when `has_bias`, then `residual` (shape of C) when `has_residual`.

    fold=True: a and b are read as matrices whose rows are all their leading axes; with `transpose_a` the result is
    [K, N] summed over all of them (the weight gradient of a linear layer: one product whose K is the token count).
    fold=False: leading axes are batch axes, equal in a and b, or absent in b.
    accumulate=True: `residual` is updated in place and the output is that memory.
    """

    transpose_a: bool = False
    transpose_b: bool = False
    fold: bool = False
    has_bias: bool = False
    has_residual: bool = False
    accumulate: bool = False
    activation: str = "none"
    scale: float = 1.0

    strided_inputs = "all"

    def infer(self, inputs: list[Spec]) -> list[Spec]:
        a, b = inputs[0].shape, inputs[1].shape
        if len(a) < 2 or len(b) < 2:
            raise ShapeError(f"matmul: both operands need two axes or more; got {list(a)} and {list(b)}")
        if any(spec.dtype != "f32" for spec in inputs):
            raise ShapeError(f"matmul: operands must be f32; got {', '.join(spec.dtype for spec in inputs)}")
        (m, ka), (kb, n) = self.matrix(a, self.transpose_a), self.matrix(b, self.transpose_b)
        if ka != kb:
            raise ShapeError(f"matmul: inner extents differ, {ka} and {kb}, in {self.describe(a, b)}")
        shape = self.output_shape(a, b, m, n)
        self.check_epilogue(inputs[2:], shape)
        return [Spec(shape)]

    def matrix(self, shape: tuple[int, ...], transposed: bool) -> tuple[int, int]:
        """Rows and columns of op(X)."""
        rows, columns = shape[-2], shape[-1]
        if self.fold:
            rows = Spec(shape[:-1]).size
        return (columns, rows) if transposed else (rows, columns)

    def output_shape(self, a: tuple[int, ...], b: tuple[int, ...], m: int, n: int) -> tuple[int, ...]:
        if self.fold:
            return (m, n) if self.transpose_a else (*a[:-1], n)
        if len(b) > 2 and a[:-2] != b[:-2]:
            raise ShapeError(f"matmul: batch axes differ in {self.describe(a, b)}; give b two axes to share it")
        return (*a[:-2], m, n)

    def check_epilogue(self, extra: list[Spec], shape: tuple[int, ...]) -> None:
        expected = [(shape[-1],)] * self.has_bias + [shape] * self.has_residual
        if [spec.shape for spec in extra] != expected:
            raise ShapeError(f"matmul: bias and residual must be {expected}; got {[spec.shape for spec in extra]}")
        if self.activation not in ACTIVATIONS:
            raise ShapeError(f"matmul: activation {self.activation!r} is not one of {', '.join(ACTIVATIONS)}")

    def describe(self, a: tuple[int, ...], b: tuple[int, ...]) -> str:
        mark = {False: "", True: " transposed"}
        return f"{list(a)}{mark[self.transpose_a]} x {list(b)}{mark[self.transpose_b]}"

    def vjp(self, node, gradients):
        assert self.activation == "none" and not self.accumulate, "epilogues are fused after differentiation"
        a, b, g = node.inputs[0], node.inputs[1], gradients[0]
        if g is None:
            return [None] * len(node.inputs)
        out = [self.gradient_a(b, g), self.gradient_b(a, b, g)]
        if self.has_bias:
            out.append(fold_sum(g, keep=1))
        return out + [g] * self.has_residual

    def gradient_a(self, b: Tensor, g: Tensor) -> Tensor:
        if self.transpose_a:                                   # A^T B = C: dA = B G^T
            return self.product(b, g, self.transpose_b, True) if b.rank == g.rank or self.fold else self.product_2d(b, g)
        return self.product(g, b, False, not self.transpose_b)  # A B = C: dA = G B^T

    def gradient_b(self, a: Tensor, b: Tensor, g: Tensor) -> Tensor:
        if self.transpose_b:                                   # A B^T = C: dB = G^T A
            whole = self.product(g, a, True, self.transpose_a)
        else:                                                  # A B = C: dB = A^T G
            whole = self.product(a, g, not self.transpose_a, False)
        return whole if whole.shape == b.shape else fold_sum(whole, keep=2)

    def product(self, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
        return apply(MatMul(transpose_a, transpose_b, fold=self.fold, scale=self.scale), a, b)[0]

    def product_2d(self, b: Tensor, g: Tensor) -> Tensor:
        """B G^T for a shared 2-D B and a batched G, as (G B^T)^T: the batched operand has to come first."""
        from hierarchos.graph.functions import transpose
        axes = (*range(g.rank - 2), g.rank - 1, g.rank - 2)
        return transpose(self.product(g, b, False, not self.transpose_b), axes)

    def reference(self, inputs):
        from hierarchos.kernels.gemm import matmul_reference
        return [matmul_reference(self, inputs)]

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.gemm import lower_matmul
        return lower_matmul(self, inputs, outputs[0], profile)

    def alias(self, slot, inputs):
        return Alias(len(inputs) - 1, mutates=True) if self.accumulate else None


def fold_sum(x: Tensor, keep: int) -> Tensor:
    """Sum over all axes but the last `keep`."""
    from hierarchos.graph.functions import sum as sum_over
    axes = tuple(range(x.rank - keep))
    return sum_over(x, axes, False) if axes else x


def matmul(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """op(a) op(b): [..., M, K] x [..., K, N] -> [..., M, N].

    Batch axes must be equal; a `b` of two axes is shared by the whole batch (and the batch axes of `a` are folded into M)."""
    fold = b.rank == 2 and (a.rank == 2 or not transpose_a)
    return apply(MatMul(transpose_a, transpose_b, fold=fold), a, b)[0]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, layout: str = "out_in") -> Tensor:
    """x W^T + bias over the last axis of x [..., in].

    layout: "out_in" for weight [out, in] (torch Linear), "in_out" for weight [in, out] (GPT-2 Conv1D). bias [out]."""
    if layout not in ("out_in", "in_out"):
        raise ShapeError(f"linear: layout {layout!r} is not 'out_in' or 'in_out'")
    if weight.rank != 2:
        raise ShapeError(f"linear: weight must have two axes; got {list(weight.shape)}")
    op = MatMul(transpose_b=layout == "out_in", fold=True, has_bias=bias is not None)
    return apply(op, x, weight, *(() if bias is None else (bias,)))[0]
