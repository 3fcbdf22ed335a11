"""LM head and cross-entropy in row chunks that fit a transient block of logits; the NumPy twin.

Of each chunk: logits = x W^T + bias into scratch memory, one kernel that turns them into nll and (in place) into their
gradient, then dx = dlogits W and dW += dlogits^T x. The bits of nll and dx do not depend on the chunk on a CPU device;
those of dW and dbias do, by the order of summation over chunks.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hierarchos.kernels.copy import fold_groups
from hierarchos.kernels.gemm import lower_product
from hierarchos.kernels.gemm_layout import Matrix, Product
from hierarchos.kernels.launch import F32, U32, In, Launch, Lowering, Operand, Out, Profile, Work

GPU_LANES = 256


@dataclass(frozen=True)
class Chunk:
    """Rows `first` to `first + rows` of x [.., width], with logits [rows, stride] in scratch memory."""

    first: int
    rows: int
    width: int
    vocabulary: int

    @property
    def stride(self) -> int:
        return -(-self.vocabulary // 4) * 4                     # rows start at multiples of 16 bytes

    def logits(self, read: bool, write: bool) -> Work:
        return Work(0, 4 * self.rows * self.stride, read, write)

    def x(self) -> Matrix:
        return Matrix(In(0, 4 * self.first * self.width), self.width, 1)


def chunk_rows(rows: int, vocabulary: int, profile: Profile) -> int:
    """Rows whose logits fit `profile.chunk_bytes`: at least one; whole tiles where there is room for them, equal chunks on GPUs."""
    fitting = max(1, profile.chunk_bytes // (16 * -(-vocabulary // 4)))
    fitting = fitting if fitting < 128 else fitting // 128 * 128
    if profile.device_class == "gpu" and fitting > 128:
        fitting = -(-rows // (128 * -(-rows // fitting))) * 128
    return min(rows, fitting)


def lower_lm_head(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Launches of an LmHeadLoss node."""
    (rows, width), vocabulary = inputs[0].shape, inputs[1].shape[0]
    step = chunk_rows(rows, vocabulary, profile)
    scratch = -(-Chunk(0, step, width, vocabulary).logits(True, True).nbytes // 256) * 256
    launches, workspace = [], scratch
    for first in range(0, rows, step):
        chunk = Chunk(first, min(step, rows - first), width, vocabulary)
        steps = [logits_product(op, chunk), row_kernel(op, chunk, profile)]
        if op.with_gradients:
            steps += [x_gradient(chunk)] + [weight_gradient(chunk)] * op.weight_gradient + [bias_gradient(chunk, profile)] * op.has_bias
        for item in steps:
            made, needed = lower_product(item, profile, scratch) if isinstance(item, Product) else ([item], scratch)
            launches += made
            workspace = max(workspace, needed)
    launches.append(Launch("lm_head_total", (1, 1, 1), (In(3), Out(1, read=True), Out(0), U32(rows)), workgroup(profile), "loss"))
    return Lowering(tuple(launches), workspace)


def logits_product(op, chunk: Chunk) -> Product:
    weight = Matrix(In(1), 1, chunk.width)                      # W^T
    target = Matrix(chunk.logits(False, True), chunk.stride, 1)
    return Product(chunk.rows, chunk.vocabulary, chunk.width, chunk.x(), weight, target, bias=In(4) if op.has_bias else None)


def workgroup(profile: Profile) -> tuple[int, bool]:
    """Invocations that share a reduction, and whether they are more than one subgroup."""
    return (profile.subgroup, False) if profile.device_class == "cpu" else (GPU_LANES, True)


def row_kernel(op, chunk: Chunk, profile: Profile) -> Launch:
    constants = (*workgroup(profile), op.with_gradients, op.softcap is not None)
    at = 4 * chunk.first
    arguments = (chunk.logits(True, op.with_gradients), In(2, at), In(3, at), Out(1, at), U32(chunk.rows), U32(chunk.vocabulary),
                 U32(chunk.stride), F32(op.scale), F32(op.softcap or 0.0))
    passes = 1 + 2 * op.with_gradients
    return Launch("lm_head_rows", fold_groups(chunk.rows, 1, profile), arguments, constants, "cross-entropy",
                  30.0 * chunk.rows * chunk.vocabulary, 4.0 * passes * chunk.rows * chunk.vocabulary)


def slopes(chunk: Chunk) -> Matrix:
    return Matrix(chunk.logits(True, False), chunk.stride, 1)


def x_gradient(chunk: Chunk) -> Product:
    target = replace(chunk.x(), ref=Out(2, 4 * chunk.first * chunk.width))
    return Product(chunk.rows, chunk.width, chunk.vocabulary, slopes(chunk), Matrix(In(1), chunk.width, 1), target)


def weight_gradient(chunk: Chunk) -> Product:
    later = chunk.first > 0
    target = Matrix(Out(3, read=later), chunk.width, 1)
    return Product(chunk.vocabulary, chunk.width, chunk.rows, slopes(chunk).transposed, chunk.x(), target,
                   residual=target if later else None, in_place=later)


def bias_gradient(chunk: Chunk, profile: Profile) -> Launch:
    later = chunk.first > 0
    local = 64
    return Launch("sum_columns", (-(-chunk.vocabulary // local), 1, 1),
                  (chunk.logits(True, False), Out(4, read=later), U32(chunk.rows), U32(chunk.vocabulary), U32(chunk.stride)),
                  (local, later), "bias gradient", float(chunk.rows * chunk.vocabulary), 4.0 * chunk.rows * chunk.vocabulary)


def lm_head_reference(op, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """loss, nll and, with gradients, dx, dweight[, dbias] in the dtype of x."""
    x, weight, targets, token_weights, *bias = inputs
    logits = (x @ weight.T + (bias[0] if bias else 0)) * x.dtype.type(op.scale)
    bent = logits if op.softcap is None else op.softcap * np.tanh(logits / op.softcap)
    trained = targets >= 0
    picked = np.where(trained, targets, 0)[:, None]
    shifted = bent - bent.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1))
    nll = np.where(trained, log_sum - np.take_along_axis(shifted, picked, 1)[:, 0], 0).astype(x.dtype)
    loss = np.asarray((token_weights * nll).sum(), x.dtype)
    if not op.with_gradients:
        return [loss, nll]
    slope = np.exp(shifted - log_sum[:, None])
    np.put_along_axis(slope, picked, np.take_along_axis(slope, picked, 1) - 1, 1)
    slope *= (np.where(trained, token_weights, 0) * op.scale)[:, None]
    if op.softcap is not None:
        slope = slope * (1 - (bent / op.softcap) ** 2)
    slope = slope.astype(x.dtype)
    dweight = slope.T @ x if op.weight_gradient else np.zeros((0, x.shape[1]), x.dtype)
    return [loss, nll, slope @ weight, dweight] + [slope.sum(axis=0)] * op.has_bias
