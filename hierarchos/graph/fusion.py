"""Elementwise fusion: chains of pointwise nodes become one kernel.

A node is inlined into its elementwise readers when all of them end in one kernel, or when it is so cheap that each may compute it
again. It must not need more operands than push constants hold, and must not read a state later than that state is written.
"""
from __future__ import annotations

from collections.abc import Callable

from hierarchos.graph.hazards import Hazards
from hierarchos.graph.merge import Merger, constant_of, elementwise
from hierarchos.graph.ops.leaf import Full
from hierarchos.graph.ops.pointwise import POSITIONAL, Fused, broadcast_shape
from hierarchos.graph.ops.views import Expand
from hierarchos.graph.rewriting import readers_of, rewrite, writes
from hierarchos.graph.tensor import Graph, Node, Spec, Tensor
from hierarchos.kernels.elementwise import MAX_OPERANDS
from hierarchos.kernels.expression import Instruction

CHEAP = frozenset({"constant", "cast", "copy", "neg", "relu", "add", "sub", "mul", "where", "maximum", "minimum",
                   "eq", "lt", "le", "gt", "ge"})
CHEAP_INSTRUCTIONS = 4                              # beyond this a value is stored rather than computed twice
LIGHT_INSTRUCTIONS, FEW_KERNELS = 8, 2              # silu of a gate: forward, and again in the derivative of its product
NEAR = 12                                           # steps between two kernels that are still merged side by side
MAX_INSTRUCTIONS = 96                               # bounds the compile time of one kernel


def fuse(graph: Graph, overlap: Callable[[str, str], bool]) -> Graph:
    """Both fusions: readers with what they read, then kernels side by side that read the same tensor."""
    return fuse_siblings(fuse_producers(graph, overlap), overlap)


class ProducerFusion:
    """Decides, from the last node to the first, which elementwise nodes are computed inside their readers."""

    def __init__(self, graph: Graph, overlap: Callable[[str, str], bool]):
        self.hazards = Hazards(graph, overlap)
        self.outputs = set(graph.outputs.values())
        self.owned = {t for node in graph.nodes if writes(node) for t in node.inputs}       # must stay tensors of their own
        self.readers = readers_of(graph)
        self.roots: dict[Node, set[Node]] = {}                      # the kernels that a node is computed in
        self.reads: dict[Node, set[Tensor]] = {}                    # what each kernel reads
        self.size: dict[Node, int] = {}                             # instructions of each kernel
        for node in filter(elementwise, reversed(graph.nodes)):
            self._decide(node)

    def inlined(self, tensor: Tensor) -> bool:
        return tensor.node not in self.roots[tensor.node]

    def may_be(self, node: Node, source: Tensor) -> bool:
        """Whether readers of the node may read `source`, its only value, instead."""
        readers = self.readers.get(node.outputs[0], [])
        last = max((self.hazards.steps[r] for r in readers), default=0) if node.outputs[0] not in self.outputs else len(self.hazards.steps)
        return (source.spec == node.specs[0] and node.outputs[0] not in self.owned
                and not self.hazards.written_between([source], self.hazards.steps[node], last + 1))

    def _decide(self, node: Node) -> None:
        inputs = {t for t in node.inputs if constant_of(t) is None}
        cost = len(instructions(node))
        if not self._may_inline(node, inputs, cost):
            self.roots[node], self.reads[node], self.size[node] = {node}, inputs, cost
            return
        self.roots[node] = set().union(*(self.roots[r] for r in self.readers[node.outputs[0]]))
        for root in self.roots[node]:
            self.reads[root] = (self.reads[root] - {node.outputs[0]}) | inputs
            self.size[root] += cost

    def _may_inline(self, node: Node, inputs: set[Tensor], cost: int) -> bool:
        tensor = node.outputs[0]
        readers = self.readers.get(tensor, [])
        if len(node.outputs) > 1 or tensor in self.outputs or not readers or not all(map(elementwise, readers)):
            return False
        roots = set().union(*(self.roots[r] for r in readers))
        again = len(roots) == 1 or cheap(node, inputs) or (len(roots) <= FEW_KERNELS and light(node, inputs))
        return again and all(self._fits(node, inputs, cost, root) for root in roots)

    def _fits(self, node: Node, inputs: set[Tensor], cost: int, root: Node) -> bool:
        same = node.specs[0].shape == root.specs[0].shape
        positional = any(i.primitive in POSITIONAL for i in instructions(node))
        operands = len((self.reads[root] - {node.outputs[0]}) | inputs) + len(root.outputs)
        return ((same or (cheap(node, inputs) and not positional)) and operands <= MAX_OPERANDS
                and self.size[root] + cost <= MAX_INSTRUCTIONS
                and not self.hazards.written_between(inputs, self.hazards.steps[node], self.hazards.steps[root]))


def instructions(node: Node):
    return node.op.expression(tuple(t.dtype for t in node.inputs)).instructions


def cheap(node: Node, inputs: set[Tensor]) -> bool:
    """Few simple instructions over at most one tensor of the node's own size."""
    body = instructions(node)
    large = [t for t in inputs if t.shape == node.specs[0].shape]
    return len(body) <= CHEAP_INSTRUCTIONS and all(i.primitive in CHEAP for i in body) and len(large) <= 1


def light(node: Node, inputs: set[Tensor]) -> bool:
    """A short function of one tensor: computing it again reads no more than its result would."""
    return len(inputs) == 1 and len(instructions(node)) <= LIGHT_INSTRUCTIONS and next(iter(inputs)).shape == node.specs[0].shape


def fuse_producers(graph: Graph, overlap: Callable[[str, str], bool]) -> Graph:
    """Computes elementwise nodes inside the elementwise nodes that read them."""
    decided = ProducerFusion(graph, overlap)
    old: dict[Tensor, Tensor] = {}                                  # tensors of the new graph by those of the old

    def change(node: Node, inputs, result: Graph):
        if not elementwise(node):
            outputs = result.add(node.op, inputs)
        elif decided.roots[node] != {node}:
            return node.outputs                                     # nobody reads them in the new graph
        else:
            outputs = add_merged([node], decided.inlined, old, result, decided.may_be)
        old.update(zip(node.outputs, outputs, strict=True))
        return outputs
    return rewrite(graph, change)


def add_merged(nodes: list[Node], inlined, renamed: dict[Tensor, Tensor], result: Graph, may_be=None) -> tuple[Tensor, ...]:
    """Adds one kernel for nodes of one shape and all that is inlined into them.

    A result that is an input as it is needs no kernel where `may_be(node, input)` allows it."""
    merger, shape = Merger(inlined), nodes[0].specs[0].shape
    values = [value for node in nodes for value in merger.add(node)]
    if may_be and len(values) == 1 and values[0][0] == "input" and may_be(nodes[0], merger.inputs[values[0][1]]):
        return (renamed[merger.inputs[values[0][1]]],)
    values = [merger.emit(Instruction("copy", (v,))) if v[0] == "input" else v for v in values]
    inputs = [renamed[t] for t in merger.inputs]
    if broadcast_shape("fused", [t.shape for t in inputs]) != shape:        # literals alone have that shape: an unread view keeps it
        inputs += result.add(Expand(shape), result.add(Full(Spec(()), 0.0), ()))
        merger.inputs.append(inputs[-1])
    return result.add(Fused(merger.expression(values)), tuple(inputs))


def fuse_siblings(graph: Graph, overlap: Callable[[str, str], bool]) -> Graph:
    """Merges kernels of one shape that read the same tensor of that shape and stand near each other, at the place of the first."""
    groups, leaders = sibling_groups(graph, Hazards(graph, overlap))
    renamed: dict[Tensor, Tensor] = {}

    def change(node: Node, inputs, result: Graph):
        if len(groups.get(node, ())) > 1:
            merged = iter(add_merged(groups[node], lambda tensor: False, renamed, result))
            for member in groups[node]:
                renamed.update((t, next(merged)) for t in member.outputs)
        elif node not in leaders:
            renamed.update(zip(node.outputs, result.add(node.op, inputs), strict=True))
        return tuple(renamed[t] for t in node.outputs)
    return rewrite(graph, change)


def sibling_groups(graph: Graph, hazards: Hazards) -> tuple[dict[Node, list[Node]], dict[Node, Node]]:
    """Groups by their first node, and the first node of every later member."""
    groups: dict[Node, list[Node]] = {}
    leaders: dict[Node, Node] = {}
    recent: list[Node] = []
    for step, node in enumerate(graph.nodes):
        recent = [first for first in recent if step - hazards.steps[first] <= NEAR]
        if not elementwise(node):
            continue
        leader = next((first for first in recent if _may_join(node, groups[first], hazards, leaders)), None)
        if leader is None:
            groups[node] = [node]
            recent.append(node)
        else:
            groups[leader].append(node)
            leaders[node] = leader
    return groups, leaders


def _may_join(node: Node, group: list[Node], hazards: Hazards, leaders: dict[Node, Node]) -> bool:
    first, step = hazards.steps[group[0]], hazards.steps[node]
    shape = node.specs[0].shape
    read = {t for member in group for t in member.inputs}
    shared = any(t.shape == shape for t in read.intersection(node.inputs))
    available = all(hazards.steps[leaders.get(t.node, t.node)] < first for t in node.inputs)
    operands = len(read.union(node.inputs)) + sum(len(member.outputs) for member in [*group, node])
    return (shape == group[0].specs[0].shape and shared and available and operands <= MAX_OPERANDS
            and sum(len(instructions(member)) for member in [*group, node]) <= MAX_INSTRUCTIONS
            and not hazards.written_between(node.inputs, first, step))
