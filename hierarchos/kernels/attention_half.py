"""Attention over halves: on matrix units where the device has them, else widened to fp32."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.kernels import attention_units
from hierarchos.kernels.attention_arguments import constants, optional, pairs
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.half_shader import half_shader
from hierarchos.kernels.launch import U32, Argument, In, Launch, Lowering, Operand, Out, Profile, Work
from hierarchos.kernels.matrix_units import matrix_shape
from hierarchos.kernels.widen import lower_widened

SUBGROUPS = 4                                       # of a workgroup
WIDEST = 128                                        # channels of a head whose sums stay in registers
DELTA_LOCAL = 128


@dataclass(frozen=True)
class Block:
    """Row blocks of a subgroup, and the columns that it meets at a time."""

    rows: int
    columns: int

    def shared_bytes(self, width: int, matrix: tuple[int, int, int], regions: int) -> int:
        """Two tiles of columns (or the rows, on their way in) and the subgroups' own regions of fp32 scores, with segments."""
        lines = max(2 * self.columns, SUBGROUPS * self.rows * matrix[0])
        return 16 * (lines * (width // 8 + 1) + SUBGROUPS * regions * matrix[0] * (self.columns // 4 + 2)) + 16 * self.columns


NARROW, WIDE, BACKWARD = Block(2, 64), Block(1, 32), Block(1, 32)      # forward with up to 64 channels, with more; both gradients


def half_forward(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """q, k, v and the rule's optional inputs -> out and log-sum-exp."""
    rule, shape, dtype = op.rule, AttentionShape.of(*(o.shape for o in inputs[:3])), inputs[0].dtype
    found = attention_units.usable(rule, shape, inputs, dtype, 1, ("forward",), profile)
    if found:
        return Lowering((attention_units.forward(rule, shape, attention_units.half_operands(inputs[:3]), dtype, 1, found, profile),))
    matrix = usable_matrix(rule, shape, inputs, profile)
    block = NARROW if shape.width <= 64 else WIDE
    if matrix is None or block.shared_bytes(shape.width, matrix, 1) > profile.shared_bytes:
        return lower_widened(op.wide, inputs, outputs, profile)
    arguments = (In(0), In(1), In(2), Out(0), Out(1), *optional(rule, 3, "segments_q", "segments_k", "query_offset"), *sizes(shape, inputs))
    groups = (-(-shape.queries // (SUBGROUPS * block.rows * matrix[0])), shape.heads, shape.batch)
    return Lowering((launch("attention_half", "attention", block, groups, rule, shape, inputs[0].dtype, matrix, arguments, 4, profile),))


def half_backward(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """q, k, v, out, log-sum-exp, dout and the rule's optional inputs -> dq, dk, dv."""
    rule, shape, dtype = op.rule, AttentionShape.of(*(o.shape for o in inputs[:3])), inputs[0].dtype
    found = attention_units.usable(rule, shape, inputs, dtype, 1, ("rows", "keys"), profile)
    matrix, block = usable_matrix(rule, shape, inputs, profile), BACKWARD
    if rule.offset or (not found and (matrix is None or block.shared_bytes(shape.width, matrix, 2) > profile.shared_bytes)):
        return lower_widened(op.wide, inputs, outputs, profile)
    rows = shape.batch * shape.queries * shape.heads
    write, read = Work(0, 4 * rows, read=False), Work(0, 4 * rows, write=False)
    delta = Launch("attention_half_delta", (-(-rows // DELTA_LOCAL), 1, 1),
                   (In(3), In(5), write, *map(U32, (rows, shape.queries, shape.heads, shape.width))), (DELTA_LOCAL, dtype == "bf16"),
                   "attention delta", 2.0 * rows * shape.width, 4.0 * rows * shape.width)
    if found:
        return Lowering((delta, *attention_units.half_backward(rule, shape, inputs, read, found, profile)), 4 * rows)
    more, numbers, own = optional(rule, 6, "segments_q", "segments_k"), sizes(shape, inputs), SUBGROUPS * matrix[0]
    dq = launch("attention_half_rows", "attention dq", block, (-(-shape.queries // own), shape.heads, shape.batch), rule, shape, dtype,
                matrix, (In(0), In(1), In(2), In(5), Out(0), In(4), read, *more, *numbers), 6, profile)
    dkv = launch("attention_half_keys", "attention dk dv", block, (-(-shape.keys // own), shape.key_heads, shape.batch), rule, shape, dtype,
                 matrix, (In(0), In(1), In(2), In(5), Out(1), Out(2), In(4), read, *more, *numbers), 8, profile)
    return Lowering((delta, dq, dkv), 4 * rows)


def usable_matrix(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], profile: Profile) -> tuple[int, int, int] | None:
    """(m, n, k) of the matrices to use; None where these kernels do not know a part of the rule or the shape."""
    matrix = matrix_shape(profile, inputs[0].dtype)
    if matrix is None or profile.device_class != "gpu" or rule.dropout > 0 or rule.softcap or rule.slopes:
        return None
    m, n, k = matrix
    fits = shape.width == shape.value_width <= WIDEST and shape.width % n == shape.width % k == 32 % n == 32 % k == 0
    lanes = profile.subgroup in (m, 2 * m) and n % (4 * profile.subgroup // m) == 0
    aligned = all(operand.strides[3] == 1 and operand.strides[1] % 2 == 0 for operand in inputs[:3])
    return matrix if fits and lanes and aligned and shape.width % 8 == 0 else None


def sizes(shape: AttentionShape, inputs: list[Operand]) -> tuple[Argument, ...]:
    strides = [stride for operand in inputs[:3] for stride in operand.strides[:3]]
    return tuple(map(U32, (*strides, shape.queries, shape.keys)))


def launch(shader: str, label: str, block: Block, groups: tuple[int, int, int], rule: AttentionRule, shape: AttentionShape, dtype: str,
           matrix: tuple[int, int, int], arguments: tuple, work: float, profile: Profile) -> Launch:
    """work: operations for each channel of a seen pair."""
    numbers = (*constants(rule, shape, SUBGROUPS * profile.subgroup), dtype == "bf16", block.columns, block.rows, *matrix, SUBGROUPS,
               profile.subgroup // matrix[0], rule.offset)
    return Launch(half_shader(shader, dtype), groups, arguments, numbers, f"{label} {dtype}", work * pairs(rule, shape) * shape.width)
