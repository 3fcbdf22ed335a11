"""Attention for CPU drivers: no shared memory; a lane owns rows (or keys), the other side is shuffled within the subgroup.

What that costs on lavapipe, and why the kernels look as they do: shaders/include/attention_lanes.glsl."""
from __future__ import annotations

from dataclasses import replace

from hierarchos.kernels.attention_arguments import constants, delta, optional, pairs, sizes, stats_bytes
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.launch import In, Launch, Lowering, Operand, Out, Profile, Work

CHANNEL_BUDGET = 128                                # channels times rows of a lane: they live in registers
MOST_ROWS = 4
MOST_CHUNK = 64


def owned(shape: AttentionShape, count: int, lanes: int) -> int:
    """How many of `count` rows or keys each lane owns."""
    fitting = CHANNEL_BUDGET // max(shape.width, shape.value_width)
    return max(1, min(MOST_ROWS, fitting, -(-count // lanes)))


def chunk(shape: AttentionShape, lanes: int) -> int:
    """Channels in the text of one loop: all of them where they fit, else a part without padding of its own."""
    unit = max(16, 2 * lanes)
    units = -(-max(shape.width, shape.value_width) // unit)
    return unit * max(n for n in range(1, max(1, MOST_CHUNK // unit) + 1) if units % n == 0)


def grid(shape: AttentionShape, count: int, block: int) -> tuple[int, int, int]:
    return -(-count // block), shape.key_heads, shape.batch


def launch(shader: str, label: str, rule: AttentionRule, shape: AttentionShape, count: int, arguments: tuple, lanes: int,
           operations: float) -> Launch:
    """A launch whose lanes own `count` rows or keys of each key head between them."""
    own = owned(shape, count, lanes)
    numbers = (*constants(rule, shape, lanes), own, chunk(shape, lanes))
    return Launch(shader, grid(shape, count, lanes * own), arguments, numbers, label, operations)


def lanes_forward(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], profile: Profile) -> Lowering:
    """One launch: out and log-sum-exp."""
    arguments = (In(0), In(1), In(2), Out(0), Out(1), *optional(rule, 3, "segments_q", "segments_k", "seed", "query_offset", "slopes"),
                 *sizes(rule, shape, inputs))
    operations = 2.0 * pairs(rule, shape) * (shape.width + shape.value_width)
    return Lowering((launch("attention_lanes", "attention", rule, shape, shape.queries * shape.group, arguments, profile.subgroup,
                            operations),))


def lanes_backward(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], profile: Profile) -> Lowering:
    """Three launches: statistics of rows, dq (which corrects the delta of the statistics), dk and dv."""
    more, numbers, work = optional(rule, 6, "segments_q", "segments_k", "slopes"), sizes(rule, shape, inputs), 2.0 * pairs(rule, shape)
    operands, stats = (In(0), In(1), In(2), In(5)), Work(0, stats_bytes(shape))
    dq = launch("attention_lanes_rows", "attention dq", rule, shape, shape.queries * shape.group,
                (*operands, stats, Out(0), *more, *numbers), profile.subgroup, work * (2 * shape.width + shape.value_width))
    dkv = launch("attention_lanes_keys", "attention dk dv", rule, shape, shape.keys,
                 (*operands, replace(stats, write=False), Out(1), Out(2), *more, *numbers), profile.subgroup,
                 2 * work * (shape.width + shape.value_width))
    return Lowering((delta(rule, shape, 64), dq, dkv), stats_bytes(shape))
