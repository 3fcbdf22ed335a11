"""Attention of fp32 operands on matrix units: each operand as the sum of two float16 (shaders/attention_split.comp), each product as three
products of halves (attention_units.py).

As in gemm_split.py, what is left out is as small as the rounding of fp32, and chains of sums are shorter than fp32 kernels have them.
Weights and their gradients are split where they are made: weights lie in [0, 1], gradients take a power of two that each tile finds.
`device.split_products=false` keeps to the fp32 kernels."""
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hierarchos.kernels import attention_units as units
from hierarchos.kernels.attention_arguments import is_exact, stats_bytes
from hierarchos.kernels.attention_blocks import delta_rows, group_targets
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.launch import U32, In, Launch, Lowering, Operand, Profile, Work

if TYPE_CHECKING:
    import numpy as np

BLOCK, LOCAL = 64, 256                              # lines that share a power of two; invocations that split them
FEWEST_LINES = 129                                  # queries, keys: with 128 the fp32 kernels take as long on an H200, and err no more


def usable(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], profile: Profile, backward: bool) -> units.Found | None:
    """What the device offers; None where these kernels are not wanted or do not know a part of the rule or the shape."""
    if not profile.split or min(shape.queries, shape.keys) < FEWEST_LINES or is_exact(rule, shape, profile):
        return None
    return units.usable(rule, shape, inputs, "f16", 2, ("rows", "keys") if backward else ("forward",), profile)


def split_launches(operands: list[tuple[int, Operand]], start: int) -> tuple[list[Launch], tuple[units.Lines, ...], int]:
    """Launches that split inputs (their indices and layouts) into `start` and following bytes of the scratch memory; what they give,
    and where it ends."""
    launches, made = [], []
    for index, operand in operands:
        batch, lines, heads, width = operand.shape
        blocks = -(-lines // BLOCK)
        nbytes = 4 * batch * heads * blocks * (BLOCK * width + 1)
        arguments = (In(index), Work(start, nbytes, read=False), *map(U32, (*operand.strides[:3], lines)))
        launches.append(Launch("attention_split", (blocks, heads, batch), arguments, (LOCAL, width), "attention halves",
                               0.0, 8.0 * batch * heads * lines * width))
        head = blocks * BLOCK * 2 * width
        made.append(units.Lines(Work(start, nbytes, write=False), (heads * head, 2 * width, head)))
        start += -(-nbytes // 256) * 256
    return launches, tuple(made), start


def split_forward(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], found: units.Found, profile: Profile) -> Lowering:
    """out and log-sum-exp."""
    launches, operands, end = split_launches(list(enumerate(inputs[:3])), 0)
    return Lowering((*launches, units.forward(rule, shape, operands, "f16", 2, found, profile)), end)


def split_backward(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], found: units.Found, profile: Profile) -> Lowering:
    """Statistics of rows, halves of q, k, v and dout, dq (which corrects delta), dk and dv; these for each query head and then summed over
    the groups where key heads alone would leave multiprocessors idle."""
    rows = shape.batch * shape.queries * shape.heads
    halves, operands, end = split_launches([(i, inputs[i]) for i in (0, 1, 2, 5)], -(-stats_bytes(shape) // 256) * 256)
    lse, delta = Work(0, 4 * rows, write=False), Work(4 * rows, 4 * rows)
    dq = units.rows(rule, shape, operands, (lse, delta), "f16", 2, found, profile)
    unit = units.unit_for("keys", 2, shape.width)
    assert unit
    owned, targets, summed, end = group_targets(shape, unit.subgroups * found.side, end, profile)
    dkv = units.keys(rule, owned, operands, targets, (lse, replace(delta, write=False)), "f16", 2, found, profile,
                     shape.group if summed else 1)
    return Lowering((delta_rows(rule, shape, profile), *halves, dq, dkv, *summed), end)


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
