"""Writes results where they are wanted: into the state that they are assigned to, or over an input that dies."""
from __future__ import annotations

from dataclasses import replace

from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.ops.leaf import Assign
from hierarchos.graph.placement import Place, Placement, Storage
from hierarchos.graph.tensor import Node, Tensor


def same_index_inputs(node: Node) -> tuple[int, ...]:
    """Inputs that the op reads, for each output element, only at its index (or its pair's, in a rope), before it writes it."""
    from hierarchos.graph.ops.matmul import MatMul
    from hierarchos.graph.ops.norm import NormInputGradient
    from hierarchos.graph.ops.pointwise import Fused, Pointwise
    from hierarchos.graph.ops.rope import Rope
    if isinstance(node.op, Pointwise | Fused):
        return tuple(i for i, t in enumerate(node.inputs) if t.shape == node.specs[0].shape and t.spec.nbytes == node.specs[0].nbytes)
    if isinstance(node.op, MatMul) and node.op.has_residual and node.op.activation == "none":
        return (len(node.inputs) - 1,)
    if isinstance(node.op, NormInputGradient) and node.op.base:
        return (len(node.inputs) - 1,)
    if isinstance(node.op, Rope):
        return (0,)
    return ()


def writes_over(op: object) -> object:
    """The op to run when its output is the memory of the input that it reads at the same index."""
    return replace(op, accumulate=True) if hasattr(op, "accumulate") else op


def may_overwrite(node: Node, storage: Storage, placement: Placement) -> bool:
    """Whether the node may write its output over `storage`: all that it reads there, it reads as a whole at the same index."""
    same = same_index_inputs(node)
    reads = [(i, placement.places[t]) for i, t in enumerate(node.inputs) if placement.places[t].storage.root is storage]
    return bool(reads) and all(i in same and place.whole for i, place in reads)


def reuse_dying_inputs(placement: Placement) -> None:
    """Lets elementwise results (and sums into a matrix product) take over the memory of an input that nobody reads later."""
    for step, node in enumerate(placement.graph.nodes):
        taken = set()
        for tensor in node.outputs if node in placement.ops and same_index_inputs(node) else ():
            storage = placement.places[tensor].storage
            for source in node.inputs:
                old = placement.places[source].storage.root
                dies = old.kind == "activation" and old.end == step and old not in taken
                if storage.kind == "activation" and storage.home is None and dies and may_overwrite(node, old, placement):
                    if old is storage or old.nbytes != storage.nbytes:
                        continue
                    storage.move_into(old)
                    placement.ops[node] = writes_over(node.op)
                    taken.add(old)


class AssignElision:
    """Turns `assign(state, value)` into nothing where the value can be computed in the state's own memory.

    That needs that nobody touches the state between the birth of the value's memory and the assignment (but an elementwise
    producer that reads it at the same index), and that nobody writes the state while the value is still read."""

    def __init__(self, placement: Placement, layout: StoreLayout | None):
        self.placement, self.layout = placement, layout
        self.steps = {node: step for step, node in enumerate(placement.graph.nodes)}
        self.accesses: dict[str, list[tuple[int, Node]]] = {}       # state name -> nodes that read or write it
        for step, node in enumerate(placement.graph.nodes):
            for name in {s.name for s in map(self._root, node.inputs) if s.kind == "state"} if node in placement.ops else ():
                self.accesses.setdefault(name, []).append((step, node))
        self.among = layout.overlap.index(self.accesses) if layout else lambda name: [name] if name in self.accesses else []

    def run(self) -> None:
        for node in self.placement.graph.nodes:
            if isinstance(node.op, Assign):
                self._elide(node)

    def _root(self, tensor: Tensor) -> Storage:
        return self.placement.places[tensor].storage.root

    def _elide(self, node: Node) -> None:
        target, value = (self.placement.places[t] for t in node.inputs)
        source = value.storage.root
        if not (target.whole and value.whole and target.storage.root.kind == "state"):
            return
        if source is target.storage.root:
            self.placement.ops.pop(node, None)
        elif source.kind == "activation" and source.nbytes == target.storage.nbytes and self._free(node, source, target):
            producer = self.placement.graph.nodes[source.start]
            if may_overwrite(producer, target.storage.root, self.placement):
                self.placement.ops[producer] = writes_over(producer.op)
            source.move_into(target.storage.root)
            self.placement.ops.pop(node)

    def _free(self, assign: Node, source: Storage, target: Place) -> bool:
        """Whether the state's memory may hold the value from its birth on."""
        state, at = target.storage.root, self.steps[assign]
        for step, node in self._overlapping(state.name):
            if source.start < step < at or (step == source.start and not self._reads_only_itself(node, state)):
                return False
            if at < step <= source.end and self._writes(node, state.name):
                return False
        return True

    def _reads_only_itself(self, node: Node, state: Storage) -> bool:
        others = [s for s in map(self._root, node.inputs) if s.kind == "state" and s is not state and self._overlap(s.name, state.name)]
        return not others and may_overwrite(node, state, self.placement)

    def _writes(self, node: Node, name: str) -> bool:
        aliases = [node.op.alias(slot, self.placement.operands(node.inputs)) for slot in range(len(node.specs))]
        mutated = [self._root(node.inputs[a.input]) for a in aliases if a is not None and a.mutates]
        return any(s.kind == "state" and self._overlap(s.name, name) for s in mutated)

    def _overlapping(self, name: str):
        return [access for other in self.among(name) for access in self.accesses[other]]

    def _overlap(self, first: str, second: str) -> bool:
        return first == second if self.layout is None else self.layout.overlap(first, second)
