"""Matrix products: from the operands' layout to launches; the NumPy twin."""
from __future__ import annotations

import numpy as np

from hierarchos.kernels import gemm_cpu, gemm_gpu
from hierarchos.kernels.copy import fold_groups
from hierarchos.kernels.gemm_arguments import strided_arguments
from hierarchos.kernels.gemm_layout import Product, product_of
from hierarchos.kernels.launch import Launch, Lowering, Operand, Profile


def lower_matmul(op, inputs: list[Operand], output: Operand, profile: Profile) -> Lowering:
    """Launches of a MatMul node: copies of operands that no kernel can walk, then the product."""
    product, copies, workspace = product_of(op, inputs, output, profile)
    launches, workspace = lower_product(product, profile, workspace)
    return Lowering((*copies, *launches), workspace)


def lower_product(product: Product, profile: Profile, workspace: int = 0) -> tuple[list[Launch], int]:
    """Launches of one product, and the workspace in bytes when the first `workspace` of it are taken."""
    assert product.batch <= profile.max_groups, f"a product of {product.batch} batch entries; the device takes {profile.max_groups}"
    if not tiled(product):
        return [simple(product, profile)], workspace
    if profile.device_class == "cpu" and profile.subgroup >= gemm_cpu.LANES:
        return gemm_cpu.lower(product, profile), workspace
    return gemm_gpu.lower(product, profile, workspace)


def tiled(product: Product) -> bool:
    """Whether the tiled kernels take this shape; they read pairs along the axis that has unit stride."""
    return product.m >= 2 - (product.a.column == 1) and product.n >= 2 and product.k >= 2


def simple(product: Product, profile: Profile) -> Launch:
    """One output a lane, any strides."""
    local = 64 if profile.device_class == "cpu" else 256
    x, y, _ = fold_groups(product.m * product.n, local, profile)
    return Launch("gemm_simple", (x, y, product.batch), strided_arguments(product), (local, product.activation),
                  f"gemm {product.m}x{product.n}x{product.k}", product.operations, product.bytes_moved)


def matmul_reference(op, inputs: list[np.ndarray]) -> np.ndarray:
    """activation(scale * op(A) op(B) + bias + residual) in the dtype of the inputs."""
    a, b, *extra = inputs
    lead = a.shape[:-1]
    if op.fold:
        a, b = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    a = a.swapaxes(-1, -2) if op.transpose_a else a
    b = b.swapaxes(-1, -2) if op.transpose_b else b
    c = (a @ b) * a.dtype.type(op.scale)
    if op.fold and not op.transpose_a:
        c = c.reshape(*lead, c.shape[-1])
    for term in extra:
        c = c + term
    return activate_reference(op.activation, c)


def activate_reference(name: str, x: np.ndarray) -> np.ndarray:
    if name == "relu":
        return np.maximum(x, 0)
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "gelu":
        from math import erf
        return 0.5 * x * (1 + np.vectorize(erf, otypes=[x.dtype])(x / np.sqrt(2)))
    if name == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    assert name == "none"
    return x
