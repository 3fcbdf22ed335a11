"""What a producer can do itself: products add a residual or apply an activation, gradients of norms and embeddings add to another."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hierarchos.graph.hazards import Hazards
from hierarchos.graph.merge import elementwise
from hierarchos.graph.ops.embedding import EmbeddingGradient
from hierarchos.graph.ops.leaf import Assign, Leaf, State
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.ops.norm import NormInputGradient
from hierarchos.graph.ops.pointwise import Pointwise
from hierarchos.graph.rewriting import aliases, readers_of, rewrite
from hierarchos.graph.tensor import Graph, Node, Tensor
from hierarchos.kernels.gemm_layout import ACTIVATIONS


def fold_into_producers(graph: Graph, overlap: Callable[[str, str], bool]) -> Graph:
    """add(product, other) becomes a product with `other` as residual, at the place of the add; likewise gradients of norms and embeddings.

    A product adds a state at its own place, so that a gradient which accumulates does not keep what it is made of alive."""
    finder = SumFinder(graph, overlap)
    renamed: dict[Tensor, Tensor] = {}
    early = {producer: other for producer, other in finder.sums.values() if finder.reads_early(producer, other)}

    def change(node: Node, inputs, result: Graph):
        found = finder.sums.get(node)
        if node in early:
            outputs = result.add(with_sum(node.op), (*inputs, *result.add(early[node].node.op, ())))
        elif found and found[0] in early:
            outputs = (renamed[found[0].outputs[0]],)
        elif found:
            producer, other = found
            outputs = result.add(with_sum(producer.op), tuple(renamed[t] for t in (*producer.inputs, other)))
        elif node in finder.absorbed:
            outputs = node.outputs                  # computed at the place of the add; nobody else reads them
        else:
            outputs = result.add(node.op, inputs)
        renamed.update(zip(node.outputs, outputs, strict=True))
        return outputs
    return rewrite(graph, change)


def fold_activations(graph: Graph) -> Graph:
    """activation(product) becomes a product with that activation, where nobody else needs either and no elementwise kernel follows."""
    readers = readers_of(graph)
    outputs = set(graph.outputs.values())

    def alone(tensor: Tensor) -> bool:
        return len(readers.get(tensor, ())) == 1 and tensor not in outputs

    def folds(node: Node) -> bool:
        if not isinstance(node.op, Pointwise) or node.op.primitive not in ACTIVATIONS:
            return False
        if any(map(elementwise, readers.get(node.outputs[0], ()))):
            return False
        (tensor,) = node.inputs
        product = tensor.node.op
        return isinstance(product, MatMul) and alone(tensor) and product.activation == "none" and not product.has_residual

    folded = {node.inputs[0].node: node for node in graph.nodes if folds(node)}
    activations = set(folded.values())

    def change(node: Node, inputs, result: Graph):
        if node in folded:
            return result.add(replace(node.op, activation=folded[node].op.primitive), inputs)
        return inputs if node in activations else result.add(node.op, inputs)
    return rewrite(graph, change)


def with_sum(op):
    return replace(op, has_residual=True) if isinstance(op, MatMul) else replace(op, base=True)


class SumFinder:
    """Adds whose one operand comes from a producer that can take the other one in."""

    def __init__(self, graph: Graph, overlap: Callable[[str, str], bool]):
        self.hazards = Hazards(graph, overlap)
        self.graph, self.outputs = graph, set(graph.outputs.values())
        self.readers = readers_of(graph)
        self.sums: dict[Node, tuple[Node, Tensor]] = {}
        self.absorbed: set[Node] = set()
        for node in graph.nodes:
            if isinstance(node.op, Pointwise) and node.op.primitive == "add" and len(node.inputs) == 2:
                self._look_at(node)

    def _look_at(self, node: Node) -> None:
        latest_first = sorted(node.inputs, key=lambda t: -self.hazards.steps[t.node])
        for tensor, other in (latest_first, latest_first[::-1]):
            if tensor.shape == other.shape == node.specs[0].shape and self._takes(tensor, other, node):
                self.sums[node] = (tensor.node, other)
                self.absorbed.add(tensor.node)
                return

    def _takes(self, tensor: Tensor, other: Tensor, add: Node) -> bool:
        producer, step = tensor.node, self.hazards.steps
        if not self._only_reader(tensor, add) or self.hazards.written_between(producer.inputs, step[producer], step[add]):
            return False
        if isinstance(producer.op, MatMul):
            return not producer.op.has_residual and producer.op.activation == "none" and other.node is not producer
        if isinstance(producer.op, NormInputGradient):
            return not producer.op.base and other.node is not producer
        return isinstance(producer.op, EmbeddingGradient) and not producer.op.base and self._may_be_overwritten(other, add)

    def reads_early(self, producer: Node, other: Tensor) -> bool:
        """Whether `other` is a state that has at the producer's place the value that it has where it is read."""
        if not isinstance(producer.op, MatMul) or not isinstance(other.node.op, State):
            return False
        first, last = sorted((self.hazards.steps[producer], self.hazards.steps[other.node]))
        return not self.hazards.written_between([other], first, last)

    def _only_reader(self, tensor: Tensor, node: Node) -> bool:
        return self.readers[tensor] == [node] and tensor not in self.outputs

    def _may_be_overwritten(self, other: Tensor, add: Node) -> bool:
        """Nobody needs `other` after the add: memory of its own that only the add reads, or a state that the sum is assigned to."""
        if not self._only_reader(other, add):
            return False
        if isinstance(other.node.op, State):
            return self._assigned_back(other, add)
        return not isinstance(other.node.op, Leaf) and aliases(other.node)[other.slot] is None

    def _assigned_back(self, state: Tensor, add: Node) -> bool:
        readers = self.readers.get(add.outputs[0], [])
        if len(readers) != 1 or not isinstance(readers[0].op, Assign) or add.outputs[0] in self.outputs:
            return False
        target, name = readers[0].inputs[0], state.node.op.name
        if not isinstance(target.node.op, State) or target.node.op.name != name:
            return False
        between = self.graph.nodes[self.hazards.steps[add] + 1: self.hazards.steps[readers[0]]]
        used = {self.hazards.state[t] for node in between for t in node.inputs if t in self.hazards.state}
        return not any(self.hazards.overlap(name, other) for other in used)
