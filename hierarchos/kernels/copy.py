"""Strided copies: how views become contiguous, how tensors are joined and padded, how states are written."""
from __future__ import annotations

from itertools import product
from math import prod

from hierarchos.kernels.launch import U32, In, Launch, Operand, Out, Profile, Ref, Work

MAX_RANK = 6                                        # what the push constants of copy_strided.comp hold


def shifted(ref: Ref, elements: int) -> Ref:
    """The same operand, `elements` 32-bit words further in."""
    if isinstance(ref, Work):
        return Work(ref.offset + 4 * elements, ref.nbytes - 4 * elements, ref.read, ref.write)
    if isinstance(ref, In):
        return In(ref.index, ref.offset + 4 * elements)
    return Out(ref.index, ref.offset + 4 * elements, ref.read)


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
                 label: str = "copy") -> tuple[Launch, ...]:
    """Launches that copy 32-bit elements between two strided layouts of the same shape."""
    axes = coalesce(shape, source_strides, target_strides)
    outer, inner = axes[:-MAX_RANK], axes[-MAX_RANK:]
    launches = []
    for index in product(*(range(extent) for extent, _, _ in outer)):
        s = sum(i * axis[1] for i, axis in zip(index, outer, strict=True))
        t = sum(i * axis[2] for i, axis in zip(index, outer, strict=True))
        launches.append(_one_copy(shifted(source, s), shifted(target, t), inner, profile, label))
    return tuple(launches)


def _one_copy(source: Ref, target: Ref, axes, profile: Profile, label: str) -> Launch:
    axes = [(1, 0, 0)] * (MAX_RANK - len(axes)) + axes
    count = 1
    for extent, _, _ in axes:
        count *= extent
    local = 64 if profile.device_class == "cpu" else 256
    numbers = [a[0] for a in axes] + [a[1] for a in axes] + [a[2] for a in axes]
    return Launch("copy_strided", fold_groups(count, local, profile), (source, target, U32(count), *map(U32, numbers)), (local,),
                  label=label, bytes_moved=8.0 * count)


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
