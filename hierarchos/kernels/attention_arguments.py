"""What all attention launches share: specialization constants, strides, optional operands, cost, and the rows' statistics."""
from __future__ import annotations

from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.launch import U32, Argument, In, Launch, Operand, Profile, Work
from hierarchos.kernels.random import keep_threshold


def constants(rule: AttentionRule, shape: AttentionShape, invocations: int) -> tuple[int | bool | float, ...]:
    """Specialization constants 0 to 12 of include/attention.glsl."""
    drop_below = keep_threshold(rule.dropout) if rule.dropout > 0 else 0
    return (invocations, invocations, shape.width, shape.value_width, shape.group, float(rule.scale), rule.causal, rule.window or 0,
            rule.segments, drop_below, 1.0 / (1.0 - rule.dropout), float(rule.softcap or 0.0), rule.slopes)


def optional(rule: AttentionRule, required: int, *names: str) -> tuple[In | None, ...]:
    """References to the named optional inputs; None for those that are not there."""
    index = rule.index(required)
    return tuple(In(index[name]) if name in index else None for name in names)


def sizes(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand]) -> tuple[Argument, ...]:
    """Strides of batch, time and head of q, k and v; queries, keys, stream."""
    strides = [stride for operand in inputs[:3] for stride in operand.strides[:3]]
    return tuple(map(U32, (*strides, shape.queries, shape.keys, rule.stream)))


def stats_bytes(shape: AttentionShape) -> int:
    """Scratch that attention_delta.comp fills: log-sum-exp and delta of each row, seed, offset of each sequence. Then a number for each
    row, which GPUs' kernels of dq tell those of dk and dv (`wholes` in include/attention.glsl)."""
    return 4 * (3 * shape.batch * shape.heads * shape.queries + 2 + shape.batch)


def delta(rule: AttentionRule, shape: AttentionShape, invocations: int) -> Launch:
    """Gathers what the backward kernels read for each row."""
    rows = shape.batch * shape.queries * shape.heads
    numbers = (shape.batch, shape.queries, shape.keys, shape.heads, shape.value_width)
    arguments = (In(3), In(5), In(4), Work(0, stats_bytes(shape), read=False), *optional(rule, 6, "seed", "query_offset"),
                 *map(U32, numbers))
    return Launch("attention_delta", (-(-rows // invocations), 1, 1), arguments, (invocations,), "attention delta",
                  2.0 * rows * shape.value_width, 8.0 * rows * shape.value_width)


def is_exact(rule: AttentionRule, shape: AttentionShape, profile: Profile) -> bool:
    """Whether GPUs compensate the sums of this attention, forward and backward alike."""
    return 2.0 * pairs(rule, shape) * (shape.width + shape.value_width) < profile.exact_below


def pairs(rule: AttentionRule, shape: AttentionShape) -> float:
    """About how many (row, key) pairs are seen, for cost estimates."""
    seen = float(shape.queries) * shape.keys
    if rule.causal and shape.keys >= shape.queries:
        seen -= shape.queries * (shape.queries - 1) / 2
    if rule.window is not None:
        seen = min(seen, float(shape.queries) * (rule.window if rule.causal else 2 * rule.window - 1))
    return seen * shape.batch * shape.heads
