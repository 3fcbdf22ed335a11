"""Elementwise kernels: from an expression and strided operands to launches of generated shaders.

    elementwise(expression, inputs, outputs, profile) -> Lowering       # In(0..), Out(0..)
    copy_launch(source, target, source_operand, target_operand, profile) -> Launch

Inputs broadcast to the shape of the outputs; any strides (also of outputs). `MAX_OPERANDS` inputs and outputs fit into the push
constants. Operands must have fewer than 2^31 elements.
"""
from __future__ import annotations

from math import prod

from hierarchos.kernels.elementwise_code import FIXED_NUMBERS, OPEN, Layout, elementwise_shader
from hierarchos.kernels.expression import Expression, Instruction, expression_reference
from hierarchos.kernels.launch import U32, In, Launch, Lowering, Operand, Out, Profile, Ref

__all__ = ["MAX_OPERANDS", "copy_launch", "elementwise", "elementwise_reference"]
PUSH_BYTES = 128
MAX_OPERANDS = (PUSH_BYTES - 4 * FIXED_NUMBERS) // 8   # what is left for addresses
GPU_LOCAL = 256
elementwise_reference = expression_reference


def elementwise(expression: Expression, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Computes all outputs of an expression in one launch; nothing where they hold no element."""
    if outputs[0].size == 0:
        return Lowering(())
    references = [*(In(i) for i in range(len(inputs))), *(Out(i) for i in range(len(outputs)))]
    return Lowering((elementwise_launch(expression, [*inputs, *outputs], references, profile),))


def copy_launch(source: Ref, target: Ref, source_operand: Operand, target_operand: Operand, profile: Profile) -> Launch:
    """Copies a (broadcast, strided) operand into another of the same dtype; the target may be strided, for joins and padding."""
    expression = Expression((source_operand.dtype,), (Instruction("copy", (0,)),), (1,))
    return elementwise_launch(expression, [source_operand, target_operand], [source, target], profile)


def elementwise_launch(expression: Expression, operands: list[Operand], references: list[Ref], profile: Profile) -> Launch:
    """One launch over the index space of the last operand (an output); operands and references: inputs, then outputs."""
    assert len(operands) <= MAX_OPERANDS, f"{len(operands)} operands; a fused kernel takes at most {MAX_OPERANDS}"
    shape = operands[-1].shape
    extents, strides = collapse(shape, [broadcast_strides(o, shape) for o in operands])
    rows = len(extents) > 1 and extents[-1] >= _shortest_row(profile)
    layout, numbers = _layout(rows, extents, strides, profile)
    groups, chunk = _geometry(rows, extents, layout.local, profile)
    count = extents[-1] if rows else prod(extents)
    lines = prod(extents) // count
    arguments = (*references, U32(count), U32(chunk), U32(lines), U32(0), *map(U32, numbers))
    return Launch(elementwise_shader(expression, layout), groups, arguments, label="elementwise",
                  operations=float(prod(shape) * len(expression.instructions)), bytes_moved=4.0 * sum(_touched(o) for o in operands))


def broadcast_strides(operand: Operand, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides over `shape`: 0 along axes that the operand repeats."""
    missing = len(shape) - len(operand.shape)
    kept = zip(operand.shape, operand.strides, strict=True)
    return (0,) * missing + tuple(0 if extent == 1 else stride for extent, stride in kept)


def collapse(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Drops axes of extent 1 and merges neighbours that every operand walks as one axis; at least one axis stays."""
    axes: list[list] = []                           # [extent, strides of all operands], outer first
    for axis, extent in enumerate(shape):
        steps = [row[axis] for row in strides]
        if extent == 1:
            continue
        if axes and all(outer == inner * extent for outer, inner in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = [axes[-1][0] * extent, steps]
        else:
            axes.append([extent, steps])
    axes = axes or [[1, [0] * len(strides)]]
    return tuple(extent for extent, _ in axes), [tuple(steps[k] for _, steps in axes) for k in range(len(strides))]


def _layout(rows: bool, extents, strides, profile: Profile) -> tuple[Layout, list[int]]:
    """The layout with strides 0 and 1 fixed and the rest open, or all baked in where the push constants would overflow.

    Also the numbers that fill the open places, in their order."""
    local = profile.subgroup if profile.device_class == "cpu" else GPU_LOCAL
    inner = (OPEN,) * (len(extents) - 1)
    fixed = tuple(tuple(n if n in (0, 1) else OPEN for n in row) for row in strides)
    numbers = list(extents[1:])
    numbers += [n for row in strides for n in row if n not in (0, 1)]
    if 8 * len(strides) + 4 * (FIXED_NUMBERS + len(numbers)) <= PUSH_BYTES:
        return Layout(rows, inner, fixed, local), numbers
    return Layout(rows, extents[1:], tuple(strides), local), []


def _shortest_row(profile: Profile) -> int:
    """From this length on a row is a run of its own; shorter ones are walked flat, with divisions."""
    return profile.subgroup if profile.device_class == "cpu" else GPU_LOCAL


def _geometry(rows: bool, extents, local: int, profile: Profile) -> tuple[tuple[int, int, int], int]:
    """Workgroups and the elements of the run that each takes."""
    run = extents[-1] if rows else prod(extents)
    lines = prod(extents) // run
    many = 128 if profile.device_class == "cpu" else 4 if run * lines > 16 * local * profile.compute_units else 1
    chunk = min(local * many, -(-run // local) * local)
    parts = -(-run // chunk)
    if rows:
        if parts > profile.max_groups:
            chunk *= -(-parts // profile.max_groups)
            parts = -(-run // chunk)
        planes = -(-lines // profile.max_groups)
        return (parts, -(-lines // planes), planes), chunk
    folds = -(-parts // profile.max_groups)
    return (-(-parts // folds), folds, 1), chunk


def _touched(operand: Operand) -> int:
    return prod(extent for extent, stride in zip(operand.shape, operand.strides, strict=True) if stride)
