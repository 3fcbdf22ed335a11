"""Reverse-mode differentiation of graphs, and regions whose activations are recomputed for it."""
from __future__ import annotations

from collections.abc import Sequence

from hierarchos.graph.op import current_graph, tracing
from hierarchos.graph.ops.leaf import Leaf, State, full
from hierarchos.graph.tensor import Graph, Node, Tensor

RECOMPUTED = " recomputed"                          # suffix of the region of cloned nodes


class checkpoint:
    """`with checkpoint("layer 3"):` keeps only what enters and leaves the region; backward computes the rest again.

    The recomputed values are the same bits: the same nodes over the same inputs, random numbers included."""

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> None:
        self.graph = current_graph()
        self.outer = self.graph.region
        taken = {node.region for node in self.graph.nodes}
        name, repeat = self.name, 1
        while name in taken:
            repeat += 1
            name = f"{self.name} ({repeat})"
        self.graph.region = name

    def __exit__(self, *_) -> None:
        self.graph.region = self.outer


def gradients(outputs: Tensor | Sequence[Tensor], wrt: Sequence[Tensor], seeds: Sequence[Tensor] | None = None) -> list[Tensor | None]:
    """d outputs / d wrt, weighted by `seeds` (ones by default); None where an output does not depend on a tensor.

    Contributions to one tensor are added in reverse trace order, always the same. Two `state` leaves of one name are one tensor.
    """
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    graph = outputs[0].node.graph
    with tracing(graph), _outside_regions(graph):
        seeds = seeds or [full(t.shape, 1.0) for t in outputs]
        found: dict = {}
        for tensor, seed in zip(outputs, seeds, strict=True):
            _accumulate(found, tensor, seed)
        _sweep(graph, found, wrt)
        return [found.get(_key(t)) for t in wrt]


def _sweep(graph: Graph, found: dict, wrt: Sequence[Tensor]) -> None:
    """Visits forward nodes in reverse and adds what their derivatives give to `found`."""
    active = _dependants(graph, {_key(t) for t in wrt})
    recompute = Recomputation(graph)
    for node in reversed(list(graph.nodes)):
        arriving = [found.get(t) for t in node.outputs]
        if node not in active or all(g is None for g in arriving):
            continue
        twin = recompute.twin(node)
        for tensor, gradient in zip(node.inputs, twin.op.vjp(twin, arriving), strict=True):
            wanted = _key(tensor) in active or tensor.node in active
            if gradient is not None and wanted and tensor.dtype == "f32":
                _accumulate(found, tensor, gradient)


def _accumulate(found: dict, tensor: Tensor, gradient: Tensor) -> None:
    from hierarchos.graph.ops.pointwise import add
    assert gradient.shape == tensor.shape, f"{tensor} got a gradient of shape {gradient.shape}"
    key = _key(tensor)
    found[key] = add(found[key], gradient) if key in found else gradient


def _key(tensor: Tensor):
    """What identifies a tensor: itself, or the name of a state."""
    return tensor.node.op.name if isinstance(tensor.node.op, State) else tensor


def _dependants(graph: Graph, wanted: set) -> set:
    """`wanted` keys, and every node that depends on one of them."""
    active = set(wanted)
    for node in graph.nodes:
        if any(t.node in active or _key(t) in active for t in node.inputs):
            active.add(node)
    return active


class Recomputation:
    """Clones of checkpointed regions, made when backward first needs one."""

    def __init__(self, graph: Graph):
        self.graph, self.clones = graph, {}
        self.regions: dict[str, list[Node]] = {}
        for node in graph.nodes:
            if node.region is not None and not node.region.endswith(RECOMPUTED):
                self.regions.setdefault(node.region, []).append(node)

    def twin(self, node: Node) -> Node:
        """The node itself, or its clone when it lies in a region."""
        if node.region in self.regions:
            self._clone(self.regions.pop(node.region))
        return self.clones.get(node, node)

    def _clone(self, nodes: list[Node]) -> None:
        self.graph.region = nodes[0].region + RECOMPUTED
        for node in nodes:
            if isinstance(node.op, Leaf) or _writes(node):
                continue                            # leaves cost nothing, and effects must happen once
            clone = self.graph.add(node.op, tuple(self._cloned(t) for t in node.inputs))[0].node
            self.clones[node] = clone
        self.graph.region = None

    def _cloned(self, tensor: Tensor) -> Tensor:
        clone = self.clones.get(tensor.node)
        return clone.outputs[tensor.slot] if clone else tensor


def _writes(node: Node) -> bool:
    from hierarchos.kernels.launch import Operand, row_major
    operands = [Operand(t.shape, t.dtype, row_major(t.shape)) for t in node.inputs]
    aliases = [node.op.alias(slot, operands) for slot in range(len(node.specs))]
    return node.op.effect or any(a is not None and a.mutates for a in aliases)


class _outside_regions:
    """Backward nodes belong to no region."""

    def __init__(self, graph: Graph):
        self.graph, self.region = graph, graph.region

    def __enter__(self) -> None:
        self.graph.region = None

    def __exit__(self, *_) -> None:
        self.graph.region = self.region
