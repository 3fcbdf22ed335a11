"""Large results that are cheap to compute again are not kept for the backward pass: norms, and elementwise chains like silu(gate) * up.

Such a tensor costs one more pass over memory that is alive anyway, and nothing where the fusion merges it with a kernel that reads the
same operands. The clone has the same bits. Independent of `checkpoint`, which drops whole regions.
"""
from __future__ import annotations

from collections.abc import Callable

from hierarchos.graph.hazards import Hazards
from hierarchos.graph.merge import elementwise
from hierarchos.graph.ops.leaf import Leaf
from hierarchos.graph.ops.norm import Norm
from hierarchos.graph.ops.views import Expand, Reshape, Split, Transpose
from hierarchos.graph.rewriting import readers_of, rewrite, writes
from hierarchos.graph.tensor import Graph, Node, Tensor

LEAST_BYTES = 8 << 20                               # smaller ones cost a launch for memory that nobody misses
FAR = 40                                            # steps without a reader, after which a tensor counts as kept
DEEPEST = 6                                         # nodes of a chain
VIEWS = Reshape | Split | Transpose | Expand


def compute_again(graph: Graph, overlap: Callable[[str, str], bool], least_bytes: int = LEAST_BYTES) -> Graph:
    """Clones each such chain before the first reader after a long gap; that reader and all later ones read the clone."""
    chains = Finder(graph, overlap, least_bytes).chains
    if not chains:
        return graph
    renamed: dict[Tensor, Tensor] = {}
    again: dict[Tensor, Tensor] = {}

    def change(node: Node, inputs, result: Graph):
        for tensor, chain in chains.get(node, ()):
            again[tensor] = clone(tensor, chain, renamed, result)
        outputs = result.add(node.op, tuple(again.get(old, new) for old, new in zip(node.inputs, inputs, strict=True)))
        renamed.update(zip(node.outputs, outputs, strict=True))
        return outputs
    return rewrite(graph, change)


def clone(tensor: Tensor, chain: list[Node], renamed: dict[Tensor, Tensor], result: Graph) -> Tensor:
    """Adds the nodes of a chain once more; returns the new `tensor`."""
    local: dict[Tensor, Tensor] = {}
    for node in chain:
        outputs = result.add(node.op, tuple(local.get(t) or renamed[t] for t in node.inputs))
        local.update(zip(node.outputs, outputs, strict=True))
    return local[tensor]


class Finder:
    """chains: by the node before which they are computed again, the tensors and the nodes that make them, in order."""

    def __init__(self, graph: Graph, overlap: Callable[[str, str], bool], least_bytes: int):
        self.hazards, self.readers = Hazards(graph, overlap), readers_of(graph)
        self.outputs, self.least = set(graph.outputs.values()), least_bytes
        self.chains: dict[Node, list[tuple[Tensor, list[Node]]]] = {}
        for node in graph.nodes:
            if (isinstance(node.op, Norm) or elementwise(node)) and not writes(node):
                self._look_at(node)

    def _look_at(self, node: Node) -> None:
        tensor = node.outputs[0]
        if tensor.spec.nbytes < self.least or tensor in self.outputs:
            return
        late = self._first_late(tensor)
        chain = self._chain(node) if late else None
        if chain and all(self._there(t, late) for member in chain for t in member.inputs if t.node not in chain):
            self.chains.setdefault(late, []).append((tensor, chain))

    def _first_late(self, tensor: Tensor) -> Node | None:
        """The first reader after a gap; None where there is none, or where only views are read."""
        step = self.hazards.steps
        readers = sorted(set(self.readers.get(tensor, ())), key=step.__getitem__)
        if any(isinstance(reader.op, VIEWS) for reader in readers):
            return None
        steps = [step[tensor.node], *(step[reader] for reader in readers)]
        return next((reader for before, reader in zip(steps[:-1], readers, strict=True) if step[reader] - before > FAR), None)

    def _chain(self, node: Node) -> list[Node] | None:
        """The node after the elementwise nodes that it is made of; None where these are many."""
        chain: list[Node] = []

        def visit(member: Node) -> None:
            if member not in chain:
                for t in member.inputs:
                    if elementwise(t.node) and elementwise(node) and len(chain) < DEEPEST:
                        visit(t.node)
                chain.append(member)
        visit(node)
        return chain if len(chain) <= DEEPEST else None

    def _there(self, tensor: Tensor, late: Node) -> bool:
        """Whether a source of a chain is in memory at the late reader anyway, with the value that it had."""
        source = tensor
        while isinstance(source.node.op, VIEWS):
            source = source.node.inputs[0]
        step = self.hazards.steps
        if self.hazards.written_between([source], step[tensor.node], step[late]):
            return False
        return isinstance(source.node.op, Leaf) or self._last(source) >= step[late]

    def _last(self, tensor: Tensor) -> int:
        """The last step that reads a tensor, also through views."""
        found = -1
        for reader in self.readers.get(tensor, ()):
            found = max(found, self.hazards.steps[reader])
            if isinstance(reader.op, VIEWS):
                found = max(found, *(self._last(t) for t in reader.outputs))
        return found
