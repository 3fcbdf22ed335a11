"""LayerNorm and RMSNorm: forward, gradient of the input, gradients of weight and bias. Formulas: graph/ops/norm.py."""
from __future__ import annotations

from math import prod

import numpy as np

from hierarchos.kernels.launch import F32, U32, In, Launch, Lowering, Operand, Out, Profile, Work
from hierarchos.kernels.reduce import grid, reduce_launches

FEWEST_ROWS = 32                                    # rows that a part of a column sum should have at least


def norm_reference(kind: str, x: np.ndarray, weight, bias, eps: float, weight_offset: float) -> list[np.ndarray]:
    """y, rstd and, for kind "layer", mean; weight and bias may be None."""
    mean = x.mean(-1, keepdims=True) if kind == "layer" else np.zeros_like(x[..., :1])
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + x.dtype.type(eps))
    y = (x - mean) * rstd
    y = y if weight is None else y * (x.dtype.type(weight_offset) + weight)
    y = y if bias is None else y + bias
    return [y, rstd[..., 0], mean[..., 0]][: 3 if kind == "layer" else 2]


def normalised(x: np.ndarray, rstd: np.ndarray, mean: np.ndarray | None) -> np.ndarray:
    """(x - mean) * rstd from the saved moments."""
    return (x if mean is None else x - mean[..., None]) * rstd[..., None]


def norm_input_gradient_reference(g, x, rstd, mean, weight, weight_offset: float) -> np.ndarray:
    """dx; mean is None for RMSNorm, weight may be None."""
    n = normalised(x, rstd, mean)
    h = g if weight is None else g * (x.dtype.type(weight_offset) + weight)
    centre = 0 if mean is None else h.mean(-1, keepdims=True)
    return rstd[..., None] * (h - centre - n * (h * n).mean(-1, keepdims=True))


def norm_weight_gradient_reference(g, x, rstd, mean) -> tuple[np.ndarray, np.ndarray]:
    """dweight and dbias."""
    rows = tuple(range(x.ndim - 1))
    return (g * normalised(x, rstd, mean)).sum(rows), g.sum(rows)


def _rows(x: Operand, profile: Profile) -> tuple[int, int, tuple[int, int, int], int]:
    """Rows, width, workgroups and the size of a workgroup for kernels that give a row to a subgroup."""
    rows, width = prod(x.shape[:-1]), x.shape[-1]
    local = profile.subgroup if profile.device_class == "cpu" else 4 * profile.subgroup
    return rows, width, grid(-(-rows // (local // profile.subgroup)), profile), local


def norm(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Forward of `op`, a graph.ops.norm.Norm."""
    rows, width, groups, local = _rows(inputs[0], profile)
    if rows * width == 0:
        return Lowering(())
    weight, bias = In(1) if op.weight else None, In(1 + op.weight) if op.bias else None
    layer = op.kind == "layer"
    arguments = (In(0), weight, bias, Out(0), Out(1), Out(2) if layer else None, U32(rows), U32(width),
                 F32(op.eps), F32(op.weight_offset), U32(0))
    constants = (local, layer, op.weight, op.bias, profile.device_class == "gpu")
    return Lowering((Launch("norm", groups, arguments, constants, f"{op.kind}_norm", 8.0 * rows * width, 8.0 * rows * width),))


def norm_input_gradient(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """dx of `op`, a graph.ops.norm.NormInputGradient."""
    rows, width, groups, local = _rows(inputs[1], profile)
    if rows * width == 0:
        return Lowering(())
    layer = op.kind == "layer"
    arguments = (In(0), In(1), In(2), In(3) if layer else None, In(3 + layer) if op.weight else None,
                 In(3 + layer + op.weight) if op.base else None, Out(0),
                 U32(rows), U32(width), F32(op.weight_offset), U32(0))
    label, work = f"{op.kind}_norm input gradient", 12.0 * rows * width
    return Lowering((Launch("norm_input_gradient", groups, arguments, (local, layer, op.weight, op.base), label, work, work),))


def norm_weight_gradient(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """dweight and dbias of `op`, a graph.ops.norm.NormWeightGradient: column sums in two stages."""
    rows, width = prod(inputs[1].shape[:-1]), inputs[1].shape[-1]
    local = profile.subgroup if profile.device_class == "cpu" else 64
    blocks = -(-width // local)
    busy = profile.compute_units * (2 if profile.device_class == "cpu" else 8)
    parts = max(1, min(-(-busy // blocks), rows // FEWEST_ROWS))
    chunk = -(-rows // parts)
    parts = max(1, -(-rows // max(1, chunk)))
    nbytes = 4 * parts * width
    wanted = [op.weight, op.bias]
    slots = [sum(wanted[:i]) for i in range(2)]
    if parts == 1:
        targets = [Out(slot) if want else None for slot, want in zip(slots, wanted, strict=True)]
    else:
        targets = [Work(slot * nbytes, nbytes, read=False) if want else None for slot, want in zip(slots, wanted, strict=True)]
    layer = op.kind == "layer"
    arguments = (In(0), In(1), In(2), In(3) if layer else None, *targets, U32(rows), U32(width), U32(chunk), U32(0))
    constants = (local, layer, op.weight, op.bias, profile.device_class == "gpu")
    label = f"{op.kind}_norm weight gradient"
    launches = (Launch("norm_weight_gradient", (blocks, parts, 1), arguments, constants, label, 4.0 * rows * width, 8.0 * rows * width),)
    if parts == 1:
        return Lowering(launches)
    work = nbytes * sum(wanted)
    for slot in range(sum(wanted)):
        source = Work(slot * nbytes, nbytes, write=False)
        more, extra = reduce_launches("sum", (0,), Operand((parts, width), "f32", (width, 1)), source, Out(slot), profile, work)
        launches, work = launches + more, work + extra
    return Lowering(launches, work)
