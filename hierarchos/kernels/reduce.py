"""Sums and maxima over axes: one launch, or two where a long reduction is split to keep the device busy."""
from __future__ import annotations

from math import prod

import numpy as np

from hierarchos.kernels.launch import U32, Clear, In, Launch, Lowering, Operand, Out, Profile, Ref, Work

MAX_AXES = 4
SHORTEST_ACROSS = 16                                # from this length on a subgroup shares a reduction along neighbouring elements
SHORTEST_SPLIT = 256                                # elements that a lane should sum at least
IDENTITY = {"f32": 0xFF800000, "i32": 0x80000000, "u32": 0}


def reduce_reference(kind: str, axes: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    return (np.sum if kind == "sum" else np.max)(x, axis=axes)


def reduce(kind: str, axes: tuple[int, ...], x: Operand, target: Operand, profile: Profile) -> Lowering:
    """`kind` ("sum" or "max") of x over `axes` into the contiguous output 0."""
    if x.size == 0:
        return Lowering((Clear(Out(0), 4 * target.size, 0 if kind == "sum" else IDENTITY[x.dtype]),) if target.size else ())
    launches, workspace = reduce_launches(kind, axes, x, In(0), Out(0), profile)
    return Lowering(launches, workspace)


def reduce_launches(kind: str, axes, x: Operand, source: Ref, target: Ref, profile: Profile,
                    work: int = 0) -> tuple[tuple[Launch, ...], int]:
    """Launches for any source and target, and the bytes of workspace from `work` on that they use."""
    kept = merged([(n, s) for a, (n, s) in enumerate(zip(x.shape, x.strides, strict=True)) if a not in axes])
    reduced = merged([(n, s) for a, (n, s) in enumerate(zip(x.shape, x.strides, strict=True)) if a in axes])
    across = (reduced[-1][1] <= kept[-1][1] and reduced[-1][0] >= SHORTEST_ACROSS) or prod(n for n, _ in kept) == 1
    outputs, count = prod(n for n, _ in kept), prod(n for n, _ in reduced)
    splits, chunk = _splits(outputs, count, across, profile)
    if splits == 1:
        return (_launch(kind, x.dtype, kept, reduced, across, (1, count), source, target, profile),), 0
    nbytes = 4 * splits * outputs
    first = _launch(kind, x.dtype, kept, reduced, across, (splits, chunk), source, Work(work, nbytes, read=False), profile)
    parts, axes = Work(work, nbytes, write=False), ([(outputs, 1)], [(splits, outputs)])
    last = _launch(kind, x.dtype, *axes, outputs == 1 and splits >= SHORTEST_ACROSS, (1, splits), parts, target, profile)
    return (first, last), nbytes


def merged(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(extent, stride) of axes, outer first, with neighbours that can be walked as one merged; at least one axis."""
    result: list[tuple[int, int]] = []
    for extent, stride in axes:
        if extent == 1:
            continue
        if result and result[-1][1] == extent * stride:
            result[-1] = (result[-1][0] * extent, stride)
        else:
            result.append((extent, stride))
    if len(result) > MAX_AXES:
        raise NotImplementedError(f"a reduction over a view with {len(result)} separate axes; make it contiguous first")
    return result or [(1, 0)]


def _splits(outputs: int, count: int, across: bool, profile: Profile) -> tuple[int, int]:
    """Parts of each reduction, and their length: enough for every compute unit, none too short."""
    lanes = profile.subgroup if across else 1
    busy = profile.compute_units * (2 if profile.device_class == "cpu" else 16) * (1 if across else profile.subgroup)
    splits = max(1, min(-(-busy // outputs), count // (lanes * SHORTEST_SPLIT)))
    chunk = -(-count // splits)
    chunk = -(-chunk // lanes) * lanes
    return -(-count // chunk), chunk


def _launch(kind, dtype, kept, reduced, across, split, source, target, profile) -> Launch:
    splits, chunk = split
    outputs, count = prod(n for n, _ in kept), prod(n for n, _ in reduced)
    local = profile.subgroup if profile.device_class == "cpu" else 128
    items = -(-outputs * splits // (max(1, local // profile.subgroup) if across else local))
    arguments = (source, target, U32(outputs), U32(splits), U32(count), U32(chunk), *_axes(kept), *_axes(reduced))
    constants = (local, kind == "max", ("f32", "i32", "u32").index(dtype), len(kept), len(reduced), bool(across),
                 profile.device_class == "gpu" and kind == "sum" and dtype == "f32")
    return Launch("reduce", grid(items, profile), arguments, constants, kind, float(outputs * count), 4.0 * (outputs * count + outputs))


def _axes(axes) -> list[U32]:
    """Extents of the inner axes and strides of all, right-aligned to three and four numbers."""
    extents = [n for n, _ in axes[1:]]
    strides = [s for _, s in axes]
    return [U32(n) for n in [1] * (3 - len(extents)) + extents + [0] * (4 - len(strides)) + strides]


def grid(items: int, profile: Profile) -> tuple[int, int, int]:
    """Workgroups in x and y for kernels that loop while there are items: few long ones on a CPU, one for each item on a GPU."""
    groups = min(items, 32 * profile.compute_units) if profile.device_class == "cpu" else items
    rows = -(-groups // profile.max_groups)
    return -(-groups // rows), rows, 1
