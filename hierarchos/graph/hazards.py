"""When states are written, so that no pass moves a read of one across a write."""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import cache

from hierarchos.graph.layout import Overlap
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
        written: dict[str, list[int]] = {}
        for step, name in self.writes:
            written.setdefault(name, []).append(step)
        among = overlap.index(written) if isinstance(overlap, Overlap) else lambda name: [w for w in written if overlap(name, w)]
        self.steps_of_writes = cache(lambda name: sorted(step for other in among(name) for step in written[other]))

    def written_between(self, tensors, first: int, last: int) -> bool:
        """Whether memory of these tensors is written after step `first` and before step `last`."""
        for name in {self.state[t] for t in tensors if t in self.state}:
            steps = self.steps_of_writes(name)
            at = bisect_right(steps, first)
            if at < len(steps) and steps[at] < last:
                return True
        return False
