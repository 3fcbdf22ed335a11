"""Attention for GPUs: tiles in shared memory; few queries against many keys are split over the keys and joined."""
from __future__ import annotations

from dataclasses import dataclass, replace

from hierarchos.kernels.attention_arguments import constants, delta, is_exact, optional, pairs, sizes, stats_bytes
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.launch import U32, In, Launch, Lowering, Operand, Out, Profile, Work

INVOCATIONS = 128
ACROSS, DOWN = 16, INVOCATIONS // 16                # the invocations of a workgroup over a tile's columns and lines
MOST_LINES = 4                                      # 8 was slower in every case on an H200: fewer workgroups at a time
MOST_SUMS = 64                                      # registers of an invocation for the sums over channels
MOST_SPLITS = 64
SPLIT_TILES = 2                                     # a split covers at least this many tiles of keys


@dataclass(frozen=True)
class Tile:
    """Lines and columns that an invocation owns; the tile is DOWN * lines by ACROSS * columns."""

    lines: int
    columns: int
    chunk: int

    @property
    def height(self) -> int:
        return DOWN * self.lines

    @property
    def width(self) -> int:
        return ACROSS * self.columns

    def shared_bytes(self, line_tiles: int) -> int:
        """Shared memory of a kernel that keeps `line_tiles` operands of the tile's height; the forward pass' row maxima included."""
        operands = (line_tiles * self.height + self.width) * (self.chunk + 4)
        return 4 * (operands + self.height * (self.width + 4) + self.height * ACROSS)


def chunks(width: int, chunk: int) -> int:
    return -(-width // chunk)


def choose_tile(lines: int, columns: int, batch: int, sums: tuple[int, ...], line_tiles: int, profile: Profile) -> Tile:
    """The highest tile that fits and still gives every multiprocessor two workgroups.

    lines, columns: rows or keys along either side; batch: independent problems; sums: widths of what is summed in registers."""
    chunk, widest = (16, 4) if max(sums) <= 16 else (32, 4) if max(sums) <= 32 else (64, 2)
    across = next(c for c in (4, 2, 1) if c <= widest and (ACROSS * c < 2 * columns or c == 1))
    best = None
    for own in (1, 2, MOST_LINES):
        candidates = (Tile(own, c, d) for d in (chunk, 32, 16) if d <= chunk for c in (4, 2, 1) if c <= across)
        tile = next((t for t in candidates if t.shared_bytes(line_tiles) <= profile.shared_bytes), None)
        registers = own * sum(chunks(width, chunk) * chunk // ACROSS for width in sums)
        if best and (tile is None or registers > MOST_SUMS or tile.height >= 2 * lines
                     or batch * chunks(lines, tile.height) < 2 * profile.compute_units):
            break
        best = tile or best
    assert best, f"no attention tile fits {profile.shared_bytes} bytes of shared memory"
    return best


def wide(shape: AttentionShape, inputs: list[Operand]) -> bool:
    """Whether every row of channels starts at a multiple of four elements."""
    strides = [stride for operand in inputs[:3] for stride in operand.strides[:3]]
    return all(n % 4 == 0 for n in (*strides, shape.width, shape.value_width))


def launch(shader: str, label: str, tile: Tile, groups: int, rule: AttentionRule, shape: AttentionShape, inputs: list[Operand],
           profile: Profile, arguments: tuple, operations: float) -> Launch:
    numbers = (*constants(rule, shape, INVOCATIONS), tile.lines, tile.columns, tile.chunk, wide(shape, inputs),
               is_exact(rule, shape, profile))
    return Launch(shader, (groups, shape.key_heads, shape.batch), arguments, numbers, label, operations)


def splits(shape: AttentionShape, groups: int, tile: Tile, profile: Profile) -> int:
    """Into how many parts the keys are cut so that there is work for all multiprocessors."""
    wanted = 2 * profile.compute_units // max(1, groups * shape.key_heads * shape.batch)
    return max(1, min(wanted, chunks(shape.keys, tile.width) // SPLIT_TILES, MOST_SPLITS))


def tiles_forward(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], profile: Profile) -> Lowering:
    """out and log-sum-exp: one launch, or two where the keys are split."""
    rows = shape.queries * shape.group
    tile = choose_tile(rows, shape.keys, shape.batch * shape.key_heads, (shape.value_width,), 1, profile)
    groups = chunks(rows, tile.height)
    parts = splits(shape, groups, tile, profile)
    operations = 2.0 * pairs(rule, shape) * (shape.width + shape.value_width)
    optionals = optional(rule, 3, "segments_q", "segments_k", "seed", "query_offset", "slopes")
    numbers = sizes(rule, shape, inputs)
    if parts == 1:
        arguments = (In(0), In(1), In(2), Out(0), Out(1), *optionals, *numbers)
        return Lowering((launch("attention_tile", "attention", tile, groups, rule, shape, inputs, profile, arguments,
                                operations),))
    arguments = (In(0), In(1), In(2), *split_arguments(shape, parts), *optionals, *numbers)
    return join(launch("attention_tile", "attention part", tile, groups * parts, rule, shape, inputs, profile, arguments, operations),
                shape, parts)


def split_arguments(shape: AttentionShape, parts: int) -> tuple[Work, Work]:
    """Where a launch that splits the keys writes its parts of out and of the log-sum-exp."""
    rows = shape.batch * shape.queries * shape.heads
    out_bytes = 4 * rows * shape.value_width
    return Work(0, parts * out_bytes, read=False), Work(parts * out_bytes, 4 * parts * rows, read=False)


def join(first: Launch, shape: AttentionShape, parts: int) -> Lowering:
    """The launch that wrote the parts, and the one that joins them."""
    out, lse = (replace(work, read=True, write=False) for work in split_arguments(shape, parts))
    numbers = (shape.batch, shape.queries, shape.heads, shape.value_width, parts)
    groups = (chunks(out.nbytes // (4 * parts), INVOCATIONS), 1, 1)
    second = Launch("attention_combine", groups, (out, lse, Out(0), Out(1), *map(U32, numbers)),
                    (INVOCATIONS,), "attention combine", out.nbytes / 2, float(out.nbytes))
    return Lowering((first, second), out.nbytes + lse.nbytes)


def tiles_backward(rule: AttentionRule, shape: AttentionShape, inputs: list[Operand], profile: Profile) -> Lowering:
    """Three launches: statistics of rows, dq (which corrects the delta of the statistics), dk and dv."""
    rows, batch, widths = shape.queries * shape.group, shape.batch * shape.key_heads, (shape.width, shape.value_width)
    stats, more = Work(0, stats_bytes(shape)), optional(rule, 6, "segments_q", "segments_k", "slopes")
    operands, numbers, work = (In(0), In(1), In(2), In(5), stats), sizes(rule, shape, inputs), 2.0 * pairs(rule, shape)
    tile = choose_tile(rows, shape.keys, batch, (max(widths),), 2, profile)
    dq = launch("attention_tile_rows", "attention dq", tile, chunks(rows, tile.height), rule, shape, inputs, profile,
                (*operands, Out(0), *more, *numbers), work * (2 * shape.width + shape.value_width))
    tile = choose_tile(shape.keys, rows, batch, widths, 2, profile)
    dkv = launch("attention_tile_keys", "attention dk dv", tile, chunks(shape.keys, tile.height), rule, shape, inputs, profile,
                 (*operands[:-1], replace(stats, write=False), Out(1), Out(2), *more, *numbers),
                 2 * work * (shape.width + shape.value_width))
    return Lowering((delta(rule, shape, INVOCATIONS), dq, dkv), stats_bytes(shape))
