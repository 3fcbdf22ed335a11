"""Products side by side become one: q, k and v (gate and up) read the same x, and their weights lie side by side in the store.

    forward    q, k, v = x Wq^T, x Wk^T, x Wv^T         ->  c = x W^T;  q, k, v = views of c
    input      dx = dq Wq + dk Wk + dv Wv               ->  dx = d W,  d = concat(dq, dk, dv)
    weights    Gq, Gk, Gv = dq^T x, dk^T x, dv^T x      ->  G = d^T x, written into the gradients as one state

W and G are states that `StoreLayout.join` names. Where weights are no neighbours, or somebody needs q as memory of its own, nothing
changes. `joins.py` then writes dq, dk and dv where d lies.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hierarchos.graph.hazards import Hazards
from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.ops.joins import Concat
from hierarchos.graph.ops.leaf import Assign, State
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.ops.views import Split
from hierarchos.graph.rewriting import accepts_strides, readers_of, rewrite
from hierarchos.graph.tensor import Graph, Node, Spec, Tensor

FORWARD = MatMul(transpose_b=True, fold=True)
INPUT = MatMul(fold=True)
WEIGHT = MatMul(transpose_a=True, fold=True)


def merge_siblings(graph: Graph, layout: StoreLayout | None) -> Graph:
    """Merges the products of all three kinds; runs after sums were folded into products."""
    return Siblings(graph, layout).rewritten() if layout else graph


class Siblings:
    """Which products are computed together, and where: each group at the place of one of its members."""

    def __init__(self, graph: Graph, layout: StoreLayout):
        self.graph, self.layout = graph, layout
        self.hazards, self.readers = Hazards(graph, layout.overlap), readers_of(graph)
        self.outputs = set(graph.outputs.values())
        self.groups: dict[Node, tuple[str, list[Node]]] = {}        # what is computed at a node: kind and members in memory order
        self.dropped: set[Node] = set()                             # members that are computed at the place of another
        self._find_forward()
        self._find_input()
        self._find_weights()

    # ---- finding

    def _named(self, tensor: Tensor) -> str | None:
        return tensor.node.op.name if isinstance(tensor.node.op, State) else None

    def _neighbours(self, named: Sequence[tuple[str, Node]]) -> list[list[Node]]:
        """Runs of nodes whose tensors lie side by side, in memory order; each with two members or more."""
        ordered = sorted(named, key=lambda item: (self.layout.find(item[0]).arena, self.layout.find(item[0]).offset))
        runs: list[list[tuple[str, Node]]] = []
        for item in ordered:
            if runs and self.layout.join([runs[-1][-1][0], item[0]]):
                runs[-1].append(item)
            else:
                runs.append([item])
        return [[node for _, node in run] for run in runs if len(run) > 1]

    def _add(self, kind: str, members: list[Node], at: Node) -> None:
        self.groups[at] = kind, members
        self.dropped.update(node for node in members if node is not at)

    def _find_forward(self) -> None:
        found: dict[tuple, list[tuple[str, Node]]] = {}
        for node in self.graph.nodes:
            name = self._named(node.inputs[1]) if node.op == FORWARD else None
            tensor = node.outputs[0]
            if name and tensor not in self.outputs and accepts_strides(tensor, self.readers):
                found.setdefault((node.inputs[0], node.region), []).append((name, node))
        for named in found.values():
            for members in self._neighbours(named):
                first = min(members, key=self.hazards.steps.__getitem__)
                if not any(self._written(node.inputs[1], first, node) for node in members):
                    self._add("forward", members, first)

    def _written(self, state: Tensor, first: Node, last: Node) -> bool:
        return self.hazards.written_between([state], self.hazards.steps[first], self.hazards.steps[last])

    def _find_input(self) -> None:
        """Chains of products that each add to the one before: from the last, all of whose weights are neighbours."""
        inner = {node.inputs[-1].node for node in self.graph.nodes if self._adds(node) and self._link(node.inputs[-1], node)}
        for node in self.graph.nodes:
            if not self._adds(node) or node in inner:
                continue
            chain = [node]
            while self._adds(chain[-1]) and self._link(chain[-1].inputs[-1], chain[-1]):
                chain.append(chain[-1].inputs[-1].node)
            runs = self._neighbours([(self._named(member.inputs[1]), member) for member in chain])
            states_kept = not any(self._written(member.inputs[1], member, node) for member in chain)
            if len(runs) == 1 and len(runs[0]) == len(chain) and states_kept:
                self._add("input", runs[0], node)

    def _adds(self, node: Node) -> bool:
        return node.op == replace(INPUT, has_residual=True) and self._named(node.inputs[1]) is not None

    def _link(self, tensor: Tensor, reader: Node) -> bool:
        """Whether a residual is itself such a product, for this reader alone."""
        node = tensor.node
        return (node.op in (INPUT, replace(INPUT, has_residual=True)) and self._named(node.inputs[1]) is not None
                and self.readers[tensor] == [reader] and tensor not in self.outputs and node.region == reader.region)

    def _find_weights(self) -> None:
        found: dict[tuple, list[tuple[str, Node]]] = {}
        for node in self.graph.nodes:
            if isinstance(node.op, Assign) and self._gradient_of_state(node):
                product = node.inputs[1].node
                found.setdefault((product.inputs[1], product.op, product.region), []).append((self._named(node.inputs[0]), node))
        for named in found.values():
            for assigns in self._neighbours(named):
                last = max(assigns, key=self.hazards.steps.__getitem__)
                products = [node.inputs[1].node for node in assigns]
                early, late = (pick(map(self.hazards.steps.__getitem__, products)) for pick in (min, max))
                moved = any(self.hazards.written_between(node.inputs[:2], early, late + 1) for node in products)
                if not moved and not self._touched(assigns, products, early, self.hazards.steps[last]):
                    self._add("weights", products, self.graph.nodes[late])
                    self._add("assign", assigns, last)

    def _gradient_of_state(self, assign: Node) -> bool:
        """assign(state, product) or assign(state, state + product), whose values nobody else reads."""
        target, value = assign.inputs
        product = value.node
        if self._named(target) is None or product.op not in (WEIGHT, replace(WEIGHT, has_residual=True)):
            return False
        unread = self.readers[value] == [assign] and not self.readers.get(assign.outputs[0])
        added = not product.op.has_residual or self._named(product.inputs[2]) == self._named(target)
        return unread and added and not {value, assign.outputs[0]} & self.outputs

    def _touched(self, assigns: list[Node], products: list[Node], start: int, stop: int) -> bool:
        """Whether others use the states of these assignments between two steps."""
        names = [self._named(node.inputs[0]) for node in assigns]
        others = (node for node in self.graph.nodes[start:stop] if node not in assigns and node not in products)
        used = {self.hazards.state[t] for node in others for t in node.inputs if t in self.hazards.state}
        return any(self.layout.overlap(name, other) for name in names for other in used)

    # ---- rewriting

    def rewritten(self) -> Graph:
        self.renamed: dict[Tensor, Tensor] = {}
        self.joined: dict[tuple[Tensor, ...], Tensor] = {}

        def change(node: Node, inputs, result: Graph):
            if node in self.groups:
                kind, members = self.groups[node]
                outputs = getattr(self, f"_add_{kind}")(node, members, result)
            elif node in self.dropped:
                outputs = tuple(self.renamed.get(t, t) for t in node.outputs)   # known already, or nobody reads it
            else:
                outputs = result.add(node.op, inputs)
            self.renamed.update(zip(node.outputs, outputs, strict=True))
            return outputs
        return rewrite(self.graph, change)

    def _state(self, names: Sequence[str], result: Graph) -> Tensor:
        name = self.layout.join(names)
        return result.add(State(name, Spec(self.layout.find(name).spec.shape)), ())[0]

    def _concat(self, tensors: Sequence[Tensor], result: Graph) -> Tensor:
        parts = tuple(self.renamed[t] for t in tensors)
        if parts not in self.joined:
            self.joined[parts] = result.add(Concat(parts[0].rank - 1), parts)[0]
        return self.joined[parts]

    def _add_forward(self, node: Node, members: list[Node], result: Graph):
        weight = self._state([self._named(member.inputs[1]) for member in members], result)
        whole = result.add(FORWARD, (self.renamed[node.inputs[0]], weight))[0]
        sizes = tuple(member.specs[0].shape[-1] for member in members)
        for member, part in zip(members, result.add(Split(whole.rank - 1, sizes), (whole,)), strict=True):
            self.renamed[member.outputs[0]] = part
        return (self.renamed[node.outputs[0]],)

    def _add_input(self, node: Node, members: list[Node], result: Graph):
        weight = self._state([self._named(member.inputs[1]) for member in members], result)
        first = next(member for member in members if not member.op.has_residual or member.inputs[2].node not in members)
        gradient = self._concat([member.inputs[0] for member in members], result)
        return result.add(first.op, (gradient, weight, *(self.renamed[t] for t in first.inputs[2:])))

    def _add_weights(self, node: Node, members: list[Node], result: Graph):
        before = ()
        if node.op.has_residual:
            before = (self._state([self._named(member.inputs[2]) for member in members], result),)
        gradient = self._concat([member.inputs[0] for member in members], result)
        return result.add(node.op, (gradient, self.renamed[node.inputs[1]], *before))

    def _add_assign(self, node: Node, members: list[Node], result: Graph):
        at = next(product for product in (member.inputs[1].node for member in members) if product in self.groups)
        target = self._state([self._named(member.inputs[0]) for member in members], result)
        return result.add(Assign(), (target, self.renamed[at.outputs[0]]))
