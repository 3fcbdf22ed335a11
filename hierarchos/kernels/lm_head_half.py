"""LM head and cross-entropy on matrix units: as lm_head.py, with half operands and fp32 logits.

Of each chunk: logits = x W^T + bias in fp32, one kernel that turns them into nll and their gradient, that gradient rounded to halves, then
dx and dW from it with fp32 sums.
"""
from __future__ import annotations

from dataclasses import replace

from hierarchos.kernels.gemm_half import lower_half_product
from hierarchos.kernels.gemm_layout import Matrix, Product
from hierarchos.kernels.launch import U32, In, Launch, Lowering, Operand, Out, Profile, Work
from hierarchos.kernels.lm_head import Chunk, bias_gradient, chunk_rows, row_kernel, workgroup
from hierarchos.kernels.matrix_units import matrix_shape
from hierarchos.kernels.widen import cast_launch, lower_widened


def lower_half_lm_head(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Launches of a HalfLmHeadLoss node."""
    dtype = inputs[0].dtype
    if matrix_shape(profile, dtype) is None or profile.device_class != "gpu":
        return lower_widened(op.wide, inputs, outputs, profile)
    (rows, width), vocabulary = inputs[0].shape, inputs[1].shape[0]
    step = chunk_rows(rows, vocabulary, profile)
    whole = Chunk(0, step, width, vocabulary)
    slopes_at = -(-whole.logits(True, True).nbytes // 256) * 256
    scratch = slopes_at + -(-whole.logits(True, True).nbytes // 512) * 256
    launches, workspace = [], scratch
    for first in range(0, rows, step):
        chunk = Chunk(first, min(step, rows - first), width, vocabulary)
        for item in chunk_steps(op, chunk, slopes_at, dtype, profile):
            made, needed = lower_half_product(item, dtype, "f32", profile, scratch) if isinstance(item, Product) else ([item], scratch)
            launches += made
            workspace = max(workspace, needed)
    launches.append(Launch("lm_head_total", (1, 1, 1), (In(3), Out(1, read=True), Out(0), U32(rows)), workgroup(profile), "loss"))
    return Lowering(tuple(launches), workspace)


def chunk_steps(op, chunk: Chunk, slopes_at: int, dtype: str, profile: Profile) -> list[Product | Launch]:
    """What is done for one chunk of rows, in order."""
    x, target = Matrix(In(0, 2 * chunk.first * chunk.width), chunk.width, 1), Matrix(chunk.logits(False, True), chunk.stride, 1)
    logits = Product(chunk.rows, chunk.vocabulary, chunk.width, x, Matrix(In(1), 1, chunk.width), target,
                     bias=In(4) if op.has_bias else None)
    if not op.with_gradients:
        return [logits, row_kernel(op, chunk, profile)]
    rows = (chunk.rows, chunk.vocabulary), (chunk.stride, 1)
    slopes = Work(slopes_at, 2 * chunk.rows * chunk.stride, read=False)
    rounded = cast_launch(chunk.logits(True, False), slopes, Operand(rows[0], "f32", rows[1]), Operand(rows[0], dtype, rows[1]), profile)
    slopes, dx_at, later = Matrix(replace(slopes, read=True, write=False), chunk.stride, 1), 4 * chunk.first * chunk.width, chunk.first > 0
    dx = Product(chunk.rows, chunk.width, chunk.vocabulary, slopes, Matrix(In(1), chunk.width, 1), Matrix(Out(2, dx_at), chunk.width, 1))
    total = Matrix(Out(3, read=later), chunk.width, 1)
    dweight = Product(chunk.vocabulary, chunk.width, chunk.rows, slopes.transposed, x, total, residual=total if later else None,
                      in_place=later)
    return [logits, row_kernel(op, chunk, profile), rounded, dx, dweight] + [bias_gradient(chunk, profile)] * op.has_bias
