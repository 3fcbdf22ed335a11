"""Attention on matrix units with its scores in registers (shaders/attention_units*.comp): of halves, and of fp32 operands as pairs of
float16 (attention_split.py), where the device's matrices are laid out as kernels/matrix_layout.py wants them."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.kernels.attention_arguments import constants, optional, pairs
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.half_shader import half_shader
from hierarchos.kernels.launch import U32, Argument, In, Launch, Operand, Out, Profile, Ref, Work
from hierarchos.kernels.matrix_layout import MatrixLayout

NARROW, WIDEST = 64, 128                            # channels of a head up to which the first of two units is used, the second


@dataclass(frozen=True)
class Unit:
    """Subgroups of a workgroup, the columns that they meet at a time, and tiles of columns in shared memory (1 or 2)."""

    subgroups: int
    columns: int
    buffers: int = 1

    def shared_bytes(self, width: int, planes: int, side: int) -> int:
        """Tiles of columns of two operands, or the rows on their way in; segments, sums and deltas of the columns."""
        lines = max(2 * self.buffers * self.columns, self.subgroups * side)
        return 16 * lines * (planes * width // 8 + 1) + 12 * self.buffers * self.columns


# (kernel, planes of an operand) -> units for heads of up to 64 channels and of more; as read on an H200 (validation.bench_attention).
UNITS: dict[tuple[str, int], tuple[Unit, ...]] = {
    ("forward", 2): (Unit(4, 32, 2), Unit(4, 32, 1)), ("rows", 2): (Unit(4, 32, 2),), ("keys", 2): (Unit(4, 32, 2),),
    ("forward", 1): (Unit(4, 64, 1), Unit(8, 64, 1)), ("rows", 1): (Unit(8, 64, 1), Unit(8, 64, 1)),
    ("keys", 1): (Unit(4, 64, 1), Unit(8, 32, 1))}


@dataclass(frozen=True)
class Found:
    """What kernels need to know of the device: layout and size of its matrices."""

    layout: MatrixLayout
    side: int


@dataclass(frozen=True)
class Lines:
    """An operand as the kernels read it: where, and its strides of batch, time and head in halves."""

    ref: Ref
    strides: tuple[int, int, int]


def unit_for(kernel: str, planes: int, width: int) -> Unit | None:
    units = UNITS[kernel, planes][width > NARROW:]
    return units[0] if units and width <= WIDEST else None


def usable(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], dtype: str, planes: int, kernels: tuple[str, ...],
           profile: Profile) -> Found | None:
    """What the device offers; None where these kernels do not know a part of the rule or the shape, or do not fit.

    dtype: of the matrices."""
    layout, side = dict(profile.layouts).get(dtype), 16 if profile.subgroup == 32 else 8
    if layout is None or profile.device_class != "gpu" or rule.dropout > 0 or rule.softcap or rule.slopes:
        return None
    units = [unit_for(kernel, planes, shape.width) for kernel in kernels]
    fits = all(unit and unit.shared_bytes(shape.width, planes, side) <= profile.shared_bytes for unit in units)
    alike = shape.width == shape.value_width and shape.width % side == 0 and all(operand.strides[3] == 1 for operand in inputs[:3])
    return Found(layout, side) if fits and alike and not (rule.offset and "rows" in kernels) else None


def launch(kernel: str, label: str, rule: AttentionRule, shape: AttentionShape, dtype: str, planes: int, found: Found, own: tuple[int, int],
           arguments: tuple[Argument, ...], work: float, profile: Profile, shared: int = 1) -> Launch:
    """own: lines and heads that workgroups share out among them. work: operations for each channel of a seen pair."""
    unit, shader = unit_for(kernel, planes, shape.width), "attention_units" + ("" if kernel == "forward" else f"_{kernel}")
    assert unit
    groups = (own[1], -(-own[0] // (unit.subgroups * found.side)), shape.batch)
    values = (*constants(rule, shape, unit.subgroups * profile.subgroup), dtype == "bf16", unit.columns, planes, unit.subgroups,
              found.side, rule.offset, shared, *found.layout.constants, unit.buffers)
    return Launch(half_shader(shader, dtype), groups, arguments, values, label, work * pairs(rule, shape) * shape.width)


def numbers(operands: tuple[Lines, ...], shape: AttentionShape) -> tuple[Argument, ...]:
    """Strides of q, k and v; queries, keys."""
    strides = [stride for operand in operands[:3] for stride in operand.strides]
    return tuple(map(U32, (*strides, shape.queries, shape.keys)))


def forward(rule: AttentionRule, shape: AttentionShape, operands: tuple[Lines, ...], dtype: str, planes: int, found: Found,
            profile: Profile) -> Launch:
    """q, k, v -> out and log-sum-exp."""
    arguments = (*(x.ref for x in operands), Out(0), Out(1), *optional(rule, 3, "segments_q", "segments_k", "query_offset"),
                 *numbers(operands, shape))
    label = "attention split" if planes == 2 else f"attention {dtype}"
    return launch("forward", label, rule, shape, dtype, planes, found, (shape.queries, shape.heads), arguments, 4, profile)


def rows(rule: AttentionRule, shape: AttentionShape, operands: tuple[Lines, ...], statistics: tuple[Ref, Ref], dtype: str, planes: int,
         found: Found, profile: Profile) -> Launch:
    """q, k, v, dout -> dq. statistics: log-sum-exp and delta of the rows; the latter is corrected where operands are fp32."""
    more = (*optional(rule, 6, "segments_q", "segments_k"), *numbers(operands, shape))
    label = "attention split dq" if planes == 2 else f"attention dq {dtype}"
    return launch("rows", label, rule, shape, dtype, planes, found, (shape.queries, shape.heads),
                  (*(x.ref for x in operands), Out(0), *statistics, *more), 6, profile)


def keys(rule: AttentionRule, shape: AttentionShape, operands: tuple[Lines, ...], targets: tuple[Ref, Ref], statistics: tuple[Ref, Ref],
         dtype: str, planes: int, found: Found, profile: Profile, shared: int = 1) -> Launch:
    """q, k, v, dout -> dk and dv. shared: query heads for each key head where the shape has the former in place of the latter."""
    more = (*optional(rule, 6, "segments_q", "segments_k"), *numbers(operands, shape))
    label = "attention split dk dv" if planes == 2 else f"attention dk dv {dtype}"
    return launch("keys", label, rule, shape, dtype, planes, found, (shape.keys, shape.key_heads),
                  (*(x.ref for x in operands), *targets, *statistics, *more), 8, profile, shared)


def half_operands(inputs: list[Operand]) -> tuple[Lines, ...]:
    """q, k and v of halves where they are, and dout of a backward pass."""
    made = tuple(Lines(In(i), operand.strides[:3]) for i, operand in enumerate(inputs[:3]))
    return (*made, Lines(In(5), inputs[5].strides[:3])) if len(inputs) > 5 else made


def half_backward(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], delta: Work, found: Found,
                  profile: Profile) -> tuple[Launch, Launch]:
    """dq, then dk and dv of halves. delta: of the rows."""
    operands, dtype = half_operands(inputs), inputs[0].dtype
    return (rows(rule, shape, operands, (In(4), delta), dtype, 1, found, profile),
            keys(rule, shape, operands, (Out(1), Out(2)), (In(4), delta), dtype, 1, found, profile))
