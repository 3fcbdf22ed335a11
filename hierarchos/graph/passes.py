"""Rewrites of a graph before it is planned. Every pass makes a new graph and keeps outputs, effects and their order."""
from __future__ import annotations

from collections.abc import Callable

from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.op import Alias
from hierarchos.graph.ops.views import Contiguous
from hierarchos.graph.tensor import Graph, Node, Tensor
from hierarchos.kernels.launch import Operand, row_major


def optimise(graph: Graph, layout: StoreLayout | None = None) -> Graph:
    """All passes, in order."""
    graph = remove_dead(graph)
    return make_contiguous(graph)


def rewrite(graph: Graph, change: Callable[[Node, tuple[Tensor, ...], Graph], tuple[Tensor, ...]]) -> Graph:
    """A new graph from `change(node, new inputs, new graph) -> new outputs` for every node in order."""
    result, renamed = Graph(), {}
    for node in graph.nodes:
        result.region = node.region
        outputs = change(node, tuple(renamed[t] for t in node.inputs), result)
        renamed.update(zip(node.outputs, outputs, strict=True))
    result.region = None
    result.outputs = {name: renamed[t] for name, t in graph.outputs.items()}
    return result


def operands_of(tensors) -> list[Operand]:
    """Row-major operands of tensors, for questions that do not depend on how they lie."""
    return [Operand(t.shape, t.dtype, row_major(t.shape)) for t in tensors]


def aliases(node: Node) -> list[Alias | None]:
    return [node.op.alias(slot, operands_of(node.inputs)) for slot in range(len(node.specs))]


def writes(node: Node) -> bool:
    """Whether the node changes memory that was there before it."""
    return node.op.effect or any(a is not None and a.mutates for a in aliases(node))


def remove_dead(graph: Graph) -> Graph:
    """Drops nodes that no output and no effect needs."""
    needed = {t.node for t in graph.outputs.values()} | {node for node in graph.nodes if node.op.effect}
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(t.node for t in node.inputs)
    result, renamed = Graph(), {}
    for node in graph.nodes:
        if node in needed:
            result.region = node.region
            renamed.update(zip(node.outputs, result.add(node.op, tuple(renamed[t] for t in node.inputs)), strict=True))
    result.outputs = {name: renamed[t] for name, t in graph.outputs.items()}
    return result


def make_contiguous(graph: Graph) -> Graph:
    """Copies strided views for ops that do not accept them, and for graph outputs."""
    lies: dict[Tensor, Operand] = {}
    copies: dict[Tensor, Tensor] = {}

    def add(graph: Graph, op, inputs) -> tuple[Tensor, ...]:
        outputs = graph.add(op, inputs)
        operands = [lies[t] for t in inputs]
        for slot, tensor in enumerate(outputs):
            alias = op.alias(slot, operands)
            strides = row_major(tensor.shape) if alias is None else alias.strides or lies[inputs[alias.input]].strides
            lies[tensor] = Operand(tensor.shape, tensor.dtype, tuple(strides))
        return outputs

    def whole(tensor: Tensor, graph: Graph) -> Tensor:
        if not lies[tensor].contiguous and tensor not in copies:
            copies[tensor] = add(graph, Contiguous(), (tensor,))[0]
        return copies.get(tensor, tensor)

    def change(node: Node, inputs, graph: Graph):
        accepted = range(len(inputs)) if node.op.strided_inputs == "all" else node.op.strided_inputs
        return add(graph, node.op, tuple(t if i in accepted else whole(t, graph) for i, t in enumerate(inputs)))

    result = rewrite(graph, change)
    result.outputs = {name: whole(t, result) for name, t in result.outputs.items()}
    return result
