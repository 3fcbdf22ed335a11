"""When states are written, so that no pass moves a read of one across a write."""
from __future__ import annotations

from collections.abc import Callable

from hierarchos.graph.ops.leaf import State
from hierarchos.graph.rewriting import aliases
from hierarchos.graph.tensor import Graph, Tensor


class Hazards:
    """When states are written, and which states a tensor's memory belongs to."""

    def __init__(self, graph: Graph, overlap: Callable[[str, str], bool]):
        self.overlap, self.steps = overlap, {node: step for step, node in enumerate(graph.nodes)}
        self.state: dict[Tensor, str] = {}
        self.writes: list[tuple[int, str]] = []
        for step, node in enumerate(graph.nodes):
            for tensor, alias in zip(node.outputs, aliases(node), strict=True):
                if isinstance(node.op, State):
                    self.state[tensor] = node.op.name
                elif alias is not None and node.inputs[alias.input] in self.state:
                    self.state[tensor] = self.state[node.inputs[alias.input]]
                    if alias.mutates:
                        self.writes.append((step, self.state[tensor]))

    def written_between(self, tensors, first: int, last: int) -> bool:
        """Whether memory of these tensors is written after step `first` and before step `last`."""
        names = {self.state[t] for t in tensors if t in self.state}
        return any(first < step < last and any(self.overlap(name, written) for name in names) for step, written in self.writes if names)
