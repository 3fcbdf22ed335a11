"""Attention for GPUs on blocks of 4 x 8 scores an invocation: heads of up to 128 channels, enough rows and keys to fill them."""
from __future__ import annotations

from dataclasses import dataclass, replace

from hierarchos.kernels.attention_arguments import constants, delta, is_exact, optional, pairs, sizes, stats_bytes
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.attention_tiles import INVOCATIONS, chunks, join, split_arguments, wide
from hierarchos.kernels.copy import fold_groups
from hierarchos.kernels.launch import U32, In, Launch, Lowering, Operand, Out, Profile, Ref, Work

SIDE, WALKED = 64, 64                               # invocations of one of a workgroup's two sides; walked lines of a tile
WIDEST = 128
FEWEST_LINES = 33                                   # rows, keys: below, the tiles of attention_tiles.py waste less
EACH = 4                                            # owned lines of an invocation; on an H200, 8 took 7 to 12 % longer: fewer at a time
CHUNKS = (16, 8)                                    # channels or lines at a time; 16: 4 % less than 8 at 2048 x 16 x 64
BUSY = 4                                            # workgroups a multiprocessor below which query heads of a group are taken one by one
SPLIT_TILES = 4                                     # a split of the keys covers at least so many tiles: two for each side


@dataclass(frozen=True)
class Block:
    """Owned lines of an invocation, channels or lines in a stage, channels in all (rounded up to 32)."""

    each: int
    chunk: int
    deep: int

    @property
    def owned(self) -> int:
        """Lines of a workgroup."""
        return 8 * self.each

    @property
    def joined(self) -> int:
        """Bytes that one side hands over at the end."""
        return 16 * (self.each * self.deep // 32 * SIDE + self.owned // 2)

    @property
    def forward_bytes(self) -> int:
        stage = 4 * self.chunk * max(WALKED, self.deep)
        return max(4 * self.owned * (self.deep + WALKED) + 4 * stage, self.joined)

    def backward_bytes(self, weights: int) -> int:
        """Shared memory of a kernel that keeps `weights` tiles of weights."""
        stage = 4 * self.chunk * max(self.owned + WALKED, self.deep)
        return max(4 * weights * self.owned * WALKED + 4 * stage, self.joined)


def choose_block(kernel: str, deep: int, profile: Profile) -> Block | None:
    """The block with the longest stages that fits; None where none does. kernel: forward, rows or keys."""
    for chunk in CHUNKS:
        block = Block(EACH, chunk, deep)
        needed = block.forward_bytes if kernel == "forward" else block.backward_bytes(1 if kernel == "rows" else 2)
        if needed <= profile.shared_bytes:
            return block
    return None


def deep(shape: AttentionShape) -> int:
    return 32 * chunks(max(shape.width, shape.value_width), 32)


def fits(shape: AttentionShape, profile: Profile, backward: bool) -> bool:
    """Whether these kernels take the shape on the device."""
    kernels = ("rows", "keys") if backward else ("forward",)
    return (deep(shape) <= WIDEST and min(shape.queries * shape.group, shape.keys) >= FEWEST_LINES and profile.subgroup >= 8
            and all(choose_block(kernel, deep(shape), profile) for kernel in kernels))


def launch(shader: str, label: str, block: Block, groups: int, rule: AttentionRule, shape: AttentionShape, inputs: list[Operand],
           profile: Profile, arguments: tuple, operations: float, shared: int = 1) -> Launch:
    numbers = (*constants(rule, shape, INVOCATIONS), block.each, block.chunk, wide(shape, inputs), profile.subgroup >= 32, shared,
               is_exact(rule, shape, profile))
    return Launch(shader, (groups, shape.key_heads, shape.batch), arguments, numbers, label, operations)


def splits(shape: AttentionShape, groups: int, profile: Profile) -> int:
    """Into how many parts the keys are cut so that there is work for all multiprocessors."""
    wanted = profile.compute_units // max(1, groups * shape.key_heads * shape.batch)
    return max(1, min(wanted, chunks(shape.keys, WALKED) // SPLIT_TILES))


def blocks_forward(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], profile: Profile) -> Lowering:
    """out and log-sum-exp: one launch, or two where the keys are split."""
    rows = shape.queries * shape.group
    block = choose_block("forward", deep(shape), profile)
    assert block
    groups = chunks(rows, block.owned)
    parts = splits(shape, groups, profile)
    operations = 2.0 * pairs(rule, shape) * (shape.width + shape.value_width)
    targets = (Out(0), Out(1)) if parts == 1 else split_arguments(shape, parts)
    optionals = optional(rule, 3, "segments_q", "segments_k", "seed", "query_offset", "slopes")
    arguments = (In(0), In(1), In(2), *targets, *optionals, *sizes(rule, shape, inputs))
    first = launch("attention_block", "attention", block, groups * parts, rule, shape, inputs, profile, arguments, operations)
    return Lowering((first,)) if parts == 1 else join(first, shape, parts)


def blocks_backward(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], profile: Profile) -> Lowering:
    """Statistics of rows, dq (which corrects the delta of the statistics), dk and dv; the latter for each query head and then summed
    over the groups where key heads alone would leave multiprocessors idle."""
    rows = shape.queries * shape.group
    stats, more = Work(0, stats_bytes(shape)), optional(rule, 6, "segments_q", "segments_k", "slopes")
    operands, numbers, work = (In(0), In(1), In(2), In(5), stats), sizes(rule, shape, inputs), 2.0 * pairs(rule, shape)
    block = choose_block("rows", deep(shape), profile)
    assert block
    dq = launch("attention_block_rows", "attention dq", block, chunks(rows, block.owned), rule, shape, inputs, profile,
                (*operands, Out(0), *more, *numbers), work * (2 * shape.width + shape.value_width))
    block = choose_block("keys", deep(shape), profile)
    assert block
    owned, targets, summed, end = group_targets(shape, block.owned, -(-stats_bytes(shape) // 256) * 256, profile)
    dkv = launch("attention_block_keys", "attention dk dv", block, chunks(shape.keys, block.owned), rule, owned, inputs, profile,
                 (*operands[:-1], replace(stats, write=False), *targets, *more, *numbers), 2 * work * (shape.width + shape.value_width),
                 shape.group if summed else 1)
    return Lowering((delta_rows(rule, shape, profile), dq, dkv, *summed), end if summed else stats_bytes(shape))


def group_targets(shape: AttentionShape, lines: int, start: int,
                  profile: Profile) -> tuple[AttentionShape, tuple[Ref, Ref], tuple[Launch, ...], int]:
    """Where a kernel whose workgroups own `lines` keys writes dk and dv: the shape that it works on, its targets, the launches that follow,
    and the end of the scratch memory. Grouped queries that would leave multiprocessors idle are taken one by one and added up after."""
    if shape.group == 1 or shape.batch * shape.key_heads * chunks(shape.keys, lines) >= BUSY * profile.compute_units:
        return shape, (Out(1), Out(2)), (), start
    counts = [shape.batch * shape.keys * shape.key_heads * width for width in (shape.width, shape.value_width)]
    dk_bytes, dv_bytes = (4 * shape.group * count for count in counts)
    targets = Work(start, dk_bytes, read=False), Work(start + dk_bytes, dv_bytes, read=False)
    parts = tuple(replace(work, read=True, write=False) for work in targets)
    numbers = map(U32, (*counts, shape.width, shape.value_width, shape.group))
    added = Launch("attention_group_sum", fold_groups(sum(counts), 256, profile), (*parts, Out(1), Out(2), *numbers), (256,),
                   "attention sum of groups", 0.0, 4.0 * (shape.group + 1) * sum(counts))
    return replace(shape, key_heads=shape.heads), targets, (added,), start + dk_bytes + dv_bytes


def delta_rows(rule: AttentionRule, shape: AttentionShape, profile: Profile) -> Launch:
    """Gathers what the backward kernels read for each row, by eight invocations a row."""
    plain = delta(rule, shape, INVOCATIONS)
    rows = shape.batch * shape.queries * shape.heads
    return replace(plain, shader="attention_delta_rows", groups=fold_groups(8 * rows, INVOCATIONS, profile))
