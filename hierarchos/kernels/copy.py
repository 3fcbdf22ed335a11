"""Strided copies: how views become contiguous, how tensors are joined and padded, how states are written."""
from __future__ import annotations

from dataclasses import replace
from math import prod

from hierarchos.kernels.elementwise import copy_launch
from hierarchos.kernels.launch import U32, Launch, Operand, Profile, Ref, item_bytes


def coalesce(shape, source, target) -> list[tuple[int, int, int]]:
    """Merges neighbouring axes that both layouts walk as one: [(extent, source stride, target stride)], outer first."""
    axes: list[tuple[int, int, int]] = []
    for extent, s, t in zip(shape, source, target, strict=True):
        if extent == 1:
            continue
        if axes and axes[-1][1] == extent * s and axes[-1][2] == extent * t:
            axes[-1] = (axes[-1][0] * extent, s, t)
        else:
            axes.append((extent, s, t))
    return axes or [(1, 1, 1)]


def fold_groups(invocations: int, local: int, profile: Profile) -> tuple[int, int, int]:
    """Workgroups in x and y that cover `invocations`; kernels rebuild the index from both."""
    groups = max(1, -(-invocations // local))
    rows = -(-groups // profile.max_groups)
    return -(-groups // rows), rows, 1


def strided_copy(source: Ref, target: Ref, shape, source_strides, target_strides, profile: Profile,
                 label: str = "copy", dtype: str = "u32") -> tuple[Launch, ...]:
    """Launches that copy elements as they are (of 32 bits, or of a half dtype) between two strided layouts of the same shape."""
    if 0 in shape:
        return ()
    kind = dtype if item_bytes(dtype) == 2 else "u32"
    layouts = (Operand(tuple(shape), kind, tuple(strides)) for strides in (source_strides, target_strides))
    return (replace(copy_launch(source, target, *layouts, profile), label=label),)


def scatter_rows(state: Ref, rows: Ref, index: Ref, state_operand: Operand, rows_operand: Operand, profile: Profile) -> Launch:
    """Writes rows [B, n, ...] into state [B, S, ...] at [b, index[b] + i]; rows past the end are dropped.

    The axes of `rows` after the second must be contiguous."""
    local = 64 if profile.device_class == "cpu" else 256
    (batch, count, *rest), extent = rows_operand.shape, state_operand.shape[1]
    numbers = (rows_operand.size, count, extent, prod(rest), *rows_operand.strides[:2])
    return Launch("scatter_rows", fold_groups(rows_operand.size, local, profile), (state, rows, index, *map(U32, numbers)), (local,),
                  "write rows", bytes_moved=8.0 * batch * count * prod(rest))


def scatter_rows_reference(state, rows, index):
    """NumPy twin of `scatter_rows`: returns the state after the write."""
    result = state.copy()
    for b in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            at = int(index[b]) + i
            if 0 <= at < state.shape[1]:
                result[b, at] = rows[b, i]
    return result
