"""Attention on matrix units with its scores in registers (shaders/attention_units*.comp): of halves, and of fp32 operands as pairs of
float16 (shaders/attention_split.comp), where the device's matrices are laid out as kernels/matrix_layout.py wants them."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hierarchos.kernels.attention_arguments import constants, optional, pairs, stats_bytes
from hierarchos.kernels.attention_blocks import delta_rows, group_targets
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.half_shader import half_shader
from hierarchos.kernels.launch import U32, Argument, In, Launch, Lowering, Operand, Out, Profile, Ref, Work
from hierarchos.kernels.matrix_layout import MatrixLayout

if TYPE_CHECKING:
    import numpy as np

BLOCK, SPLIT_LOCAL = 64, 256                        # lines that share a power of two; invocations that split them
FEWEST_LINES = 33                                   # queries, keys: below, the fp32 tiles waste less


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


FORWARD, ROWS, KEYS = Unit(4, 64), Unit(4, 64), Unit(4, 32)                         # of fp32 operands
HALF_FORWARD, HALF_ROWS, HALF_KEYS = Unit(4, 64), Unit(4, 64), Unit(4, 32)          # of halves


def usable_layout(rule: AttentionRule, shape: AttentionShape, dtype: str, profile: Profile, widest: int) -> tuple[MatrixLayout, int] | None:
    """The layout and the size of the matrices to use; None where these kernels do not know a part of the rule or the shape."""
    layout = dict(profile.layouts).get(dtype)
    if layout is None or profile.device_class != "gpu" or rule.dropout > 0 or rule.softcap or rule.slopes:
        return None
    side = 16 if profile.subgroup == 32 else 8
    fits = shape.width == shape.value_width <= widest and shape.width % side == 0
    return (layout, side) if fits else None


@dataclass(frozen=True)
class Lines:
    """An operand as the kernels read it: where, and its strides of batch, time and head in halves."""

    ref: Ref
    strides: tuple[int, int, int]


def launch(shader: str, label: str, unit: Unit, groups: tuple[int, int, int], rule: AttentionRule, shape: AttentionShape, dtype: str,
           planes: int, found: tuple[MatrixLayout, int], arguments: tuple[Argument, ...], work: float, profile: Profile,
           shared: int = 1) -> Launch:
    """work: operations for each channel of a seen pair."""
    layout, side = found
    numbers = (*constants(rule, shape, unit.subgroups * profile.subgroup), dtype == "bf16", unit.columns, planes, unit.subgroups, side,
               rule.offset, shared, *layout.constants, unit.buffers)
    return Launch(half_shader(shader, dtype), groups, arguments, numbers, label, work * pairs(rule, shape) * shape.width)


def numbers(operands: tuple[Lines, ...], shape: AttentionShape) -> tuple[Argument, ...]:
    strides = [stride for operand in operands for stride in operand.strides]
    return tuple(map(U32, (*strides, shape.queries, shape.keys)))


def forward_launch(rule: AttentionRule, shape: AttentionShape, operands: tuple[Lines, ...], dtype: str, planes: int, found, unit: Unit,
                   profile: Profile) -> Launch:
    """q, k, v -> out and log-sum-exp."""
    groups = (shape.heads, -(-shape.queries // (unit.subgroups * found[1])), shape.batch)
    arguments = (*(x.ref for x in operands), Out(0), Out(1), *optional(rule, 3, "segments_q", "segments_k", "query_offset"),
                 *numbers(operands, shape))
    label = "attention split" if planes == 2 else f"attention {dtype}"
    return launch("attention_units", label, unit, groups, rule, shape, dtype, planes, found, arguments, 4, profile)


def split_launches(operands: list[tuple[int, Operand]], start: int) -> tuple[list[Launch], list[Lines], int]:
    """Launches that split inputs (their indices and layouts) into `start` and following bytes of the scratch memory; what they give,
    and where it ends."""
    launches, made = [], []
    for index, operand in operands:
        batch, lines, heads, width = operand.shape
        blocks = -(-lines // BLOCK)
        nbytes = 4 * batch * heads * blocks * (BLOCK * width + 1)
        target = Work(start, nbytes, read=False)
        launches.append(Launch("attention_split", (blocks, heads, batch), (In(index), target, *map(U32, (*operand.strides[:3], lines))),
                               (SPLIT_LOCAL, width), "attention halves", 0.0, 8.0 * batch * heads * lines * width))
        head = blocks * BLOCK * 2 * width
        made.append(Lines(Work(start, nbytes, write=False), (heads * head, 2 * width, head)))
        start += -(-nbytes // 256) * 256
    return launches, made, start


def split_usable(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], profile: Profile, backward: bool):
    """As usable_layout, for fp32 operands."""
    if not profile.split or min(shape.queries, shape.keys) < FEWEST_LINES or (backward and rule.offset):
        return None
    found = usable_layout(rule, shape, "f16", profile, 64 if backward else 128)
    units = (ROWS, KEYS) if backward else (FORWARD,)
    fits = found and all(unit.shared_bytes(shape.width, 2, found[1]) <= profile.shared_bytes for unit in units)
    along = all(operand.strides[3] == 1 for operand in inputs[:3])
    return found if fits and along else None


def split_forward(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], found, profile: Profile) -> Lowering:
    """out and log-sum-exp of fp32 operands."""
    launches, operands, end = split_launches(list(enumerate(inputs[:3])), 0)
    return Lowering((*launches, forward_launch(rule, shape, tuple(operands), "f16", 2, found, FORWARD, profile)), end)


def split_backward(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], found, profile: Profile) -> Lowering:
    """dq, dk, dv of fp32 operands: statistics of rows, halves of q, k, v and dout, dq (which corrects delta), dk and dv; these for each
    query head and then summed over the groups where key heads alone would leave multiprocessors idle."""
    rows = shape.batch * shape.queries * shape.heads
    stats = stats_bytes(shape)
    halves, operands, end = split_launches([(i, inputs[i]) for i in (0, 1, 2, 5)], -(-stats // 256) * 256)
    lse, delta = Work(0, 4 * rows, write=False), Work(4 * rows, 4 * rows)
    refs, more = tuple(x.ref for x in operands), optional(rule, 6, "segments_q", "segments_k")
    strides = numbers(tuple(operands[:3]), shape)
    groups = (shape.heads, -(-shape.queries // (ROWS.subgroups * found[1])), shape.batch)
    dq = launch("attention_units_rows", "attention split dq", ROWS, groups, rule, shape, "f16", 2, found,
                (*refs, Out(0), lse, delta, *more, *strides), 6, profile)
    owned, targets, summed, end = group_targets(shape, KEYS.subgroups * found[1], end, profile)
    groups = (owned.key_heads, -(-shape.keys // (KEYS.subgroups * found[1])), shape.batch)
    dkv = launch("attention_units_keys", "attention split dk dv", KEYS, groups, rule, owned, "f16", 2, found,
                 (*refs, *targets, lse, replace(delta, write=False), *more, *strides), 8, profile, shape.group if summed else 1)
    return Lowering((delta_rows(rule, shape, profile), *halves, dq, dkv, *summed), end)


def half_backward_launches(rule: AttentionRule, shape: AttentionShape, operands: tuple[Lines, ...], dtype: str, delta: Work, found,
                           profile: Profile) -> tuple[Launch, Launch]:
    """dq, then dk and dv of halves. delta: of the rows."""
    refs, more = (*(x.ref for x in operands), In(5)), (*optional(rule, 6, "segments_q", "segments_k"), *numbers(operands, shape))
    groups = (shape.heads, -(-shape.queries // (HALF_ROWS.subgroups * found[1])), shape.batch)
    dq = launch("attention_units_rows", f"attention dq {dtype}", HALF_ROWS, groups, rule, shape, dtype, 1, found,
                (*refs, Out(0), In(4), delta, *more), 6, profile)
    groups = (shape.key_heads, -(-shape.keys // (HALF_KEYS.subgroups * found[1])), shape.batch)
    dkv = launch("attention_units_keys", f"attention dk dv {dtype}", HALF_KEYS, groups, rule, shape, dtype, 1, found,
                 (*refs, Out(1), Out(2), In(4), delta, *more), 8, profile)
    return dq, dkv


def split_lines(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(high, low, undo) of [B,T,H,D]: values of the two halves, and f32 [B,T,H,1] that their sum is multiplied by to give x."""
    import numpy as np

    blocks = -(-x.shape[1] // BLOCK)
    padded = np.zeros((x.shape[0], blocks * BLOCK, *x.shape[2:]), np.float32)
    padded[:, :x.shape[1]] = x
    largest = np.abs(padded).reshape(x.shape[0], blocks, BLOCK, x.shape[2], -1).max((2, 4))
    power = np.repeat(np.exp2(15.0 - np.frexp(largest)[1]).astype(np.float32), BLOCK, 1)[:, :x.shape[1], :, None]
    scaled = x * power
    high = scaled.astype(np.float16).astype(np.float32)
    return high, (scaled - high).astype(np.float16).astype(np.float32), 1 / power
