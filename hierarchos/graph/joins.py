"""Parts of a concat are computed where they belong, by producers that can write with strides; the others are copied."""
from __future__ import annotations

from dataclasses import dataclass, field

from hierarchos.graph.ops.joins import Concat, Joined, Memory, Within
from hierarchos.graph.ops.views import Reshape, reshaped_strides
from hierarchos.graph.rewriting import accepts_strides, operands_of, readers_of, rewrite
from hierarchos.graph.tensor import Graph, Node, Tensor
from hierarchos.kernels.launch import row_major


@dataclass(eq=False)
class Join:
    """A concat that takes some parts from where they are written: (slot, offset, strides) by producer, and which parts."""

    node: Node
    within: tuple[bool, ...] = ()
    places: dict[Node, list[tuple[int, int, tuple[int, ...]]]] = field(default_factory=dict)
    memory: Tensor | None = None                                    # in the new graph


def place_joins(graph: Graph) -> Graph:
    """Replaces concats that have at least one such part; runs after fusion and before strided views are copied."""
    finder = Finder(graph)
    renamed: dict[Tensor, Tensor] = {}

    def change(node: Node, inputs, result: Graph):
        join = finder.producers.get(node)
        if join:
            join.memory = join.memory or result.add(Memory(join.node.specs[0]), ())[0]
            outputs = result.add(Within(node.op, tuple(join.places[node])), (*inputs, join.memory))
        elif node in finder.joins:
            join = finder.joins[node]
            outputs = result.add(Joined(node.op.axis, join.within), (join.memory, *inputs))
        else:
            outputs = result.add(node.op, inputs)
        renamed.update(zip(node.outputs, outputs, strict=True))
        return outputs
    return rewrite(graph, change)


class Finder:
    """Which producers write into which concats."""

    def __init__(self, graph: Graph):
        self.readers, self.outputs = readers_of(graph), set(graph.outputs.values())
        self.producers: dict[Node, Join] = {}
        self.placed: set[Tensor] = set()
        self.joins: dict[Node, Join] = {}
        for node in graph.nodes:
            if isinstance(node.op, Concat):
                self._look_at(node)

    def _look_at(self, node: Node) -> None:
        join, within, start = Join(node), [], 0
        strides = row_major(node.specs[0].shape)
        for part in node.inputs:
            within.append(self._place(part, start * strides[node.op.axis], strides, join))
            start += part.shape[node.op.axis]
        join.within = tuple(within)
        if any(within):
            self.joins[node] = join

    def _place(self, part: Tensor, offset: int, strides: tuple[int, ...], join: Join) -> bool:
        """Whether the producer of a part can write it into the concat's memory."""
        source = part
        while isinstance(source.node.op, Reshape):
            source = source.node.inputs[0]
        node, op = source.node, source.node.op
        shaped = reshaped_strides(part.shape, strides, source.shape)
        able = op.strided_outputs == "all" or source.slot in op.strided_outputs
        own = self.producers.get(node, join) is join and source not in self.placed and source not in self.outputs
        if not able or not own or shaped is None or shaped[-1] != 1:
            return False
        if op.alias(source.slot, operands_of(node.inputs)) is not None or not accepts_strides(source, self.readers):
            return False
        self.producers[node] = join
        self.placed.add(source)
        join.places.setdefault(node, []).append((source.slot, offset, shaped))
        return True
