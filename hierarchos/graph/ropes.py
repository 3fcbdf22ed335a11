"""Rotates q and k in one launch, in their own memory, where they are neighbouring parts of one product (see `siblings.py`)."""
from __future__ import annotations

from dataclasses import dataclass, replace

from hierarchos.graph.ops.rope import Rope
from hierarchos.graph.ops.views import Reshape, Split
from hierarchos.graph.rewriting import readers_of, rewrite
from hierarchos.graph.tensor import Graph, Node, Tensor


@dataclass(frozen=True)
class Pair:
    """Two ropes over the parts `first` and `first + 1` of a split along the last axis, and whether nobody else reads these."""

    split: Node
    first: int
    ropes: tuple[Node, Node]
    alone: bool


def merge_ropes(graph: Graph) -> Graph:
    """Replaces each such pair, at the place of its first rope."""
    pairs = find_pairs(graph)
    at = {min(pair.ropes, key=graph.nodes.index): pair for pair in pairs} if pairs else {}
    renamed: dict[Tensor, Tensor] = {}

    def change(node: Node, inputs, result: Graph):
        if node in at:
            renamed.update(zip((rope.outputs[0] for rope in at[node].ropes), rotated(at[node], renamed, result), strict=True))
        if node.outputs[0] not in renamed:
            renamed.update(zip(node.outputs, result.add(node.op, inputs), strict=True))
        return tuple(renamed[t] for t in node.outputs)
    return rewrite(graph, change)


def find_pairs(graph: Graph) -> list[Pair]:
    readers, outputs = readers_of(graph), set(graph.outputs.values())
    ropes = {}                                                      # (split, part) -> rope
    for node in graph.nodes:
        part = part_of(node.inputs[0]) if isinstance(node.op, Rope) and not node.op.in_place else None
        if part:
            ropes.setdefault((part.node, part.slot), node)
    pairs, taken = [], set()
    for (split, slot), first in ropes.items():
        second = ropes.get((split, slot + 1))
        if second is None or {first, second} & taken or not alike(first, second):
            continue
        taken |= {first, second}
        alone = all(readers[t] == [reader] and t not in outputs for rope in (first, second)
                    for t, reader in ((rope.inputs[0], rope), (rope.inputs[0].node.inputs[0], rope.inputs[0].node)))
        pairs.append(Pair(split, slot, (first, second), alone))
    return pairs


def part_of(x: Tensor) -> Tensor | None:
    """The part [B, T, H D] of a split product that x [B, T, H, D] is, or None."""
    if not isinstance(x.node.op, Reshape):
        return None
    part = x.node.inputs[0]
    split = part.node.op
    fits = isinstance(split, Split) and split.axis == part.rank - 1 and part.rank == 3 and part.shape[:2] == x.shape[:2]
    return part if fits else None


def alike(first: Node, second: Node) -> bool:
    return (first.op == second.op and first.inputs[1:] == second.inputs[1:] and first.region == second.region
            and first.inputs[0].shape[3] == second.inputs[0].shape[3])


def rotated(pair: Pair, renamed: dict[Tensor, Tensor], result: Graph) -> tuple[Tensor, ...]:
    """The rotated heads of both, as views of one tensor."""
    sizes, (first, second) = pair.split.op.sizes, pair.ropes
    merged = (*sizes[:pair.first], sizes[pair.first] + sizes[pair.first + 1], *sizes[pair.first + 2:])
    whole = renamed[pair.split.inputs[0]]
    part = result.add(Split(pair.split.op.axis, merged), (whole,))[pair.first]
    batch, times, heads, width = first.inputs[0].shape
    heads = heads, second.inputs[0].shape[2]
    x = result.add(Reshape((batch, times, sum(heads), width)), (part,))[0]
    op = replace(first.op, in_place=pair.alone)
    y = result.add(op, (x, *(renamed[t] for t in first.inputs[1:])))[0]
    return result.add(Split(2, heads), (y,))
