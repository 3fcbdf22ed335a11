"""How graphs are rewritten: node by node into a new graph."""
from __future__ import annotations

from collections.abc import Callable
from functools import cache

from hierarchos.graph.op import Alias
from hierarchos.graph.tensor import Graph, Node, Tensor
from hierarchos.kernels.launch import Operand, row_major


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
    return [_row_major_operand(t.shape, t.dtype) for t in tensors]


@cache
def _row_major_operand(shape: tuple[int, ...], dtype: str) -> Operand:
    return Operand(shape, dtype, row_major(shape))


def aliases(node: Node) -> list[Alias | None]:
    return [node.op.alias(slot, operands_of(node.inputs)) for slot in range(len(node.specs))]


def writes(node: Node) -> bool:
    """Whether the node changes memory that was there before it."""
    return node.op.effect or any(a is not None and a.mutates for a in aliases(node))


def readers_of(graph: Graph) -> dict[Tensor, list[Node]]:
    """The nodes that read each tensor, once for each time that they do."""
    readers: dict[Tensor, list[Node]] = {}
    for node in graph.nodes:
        for tensor in node.inputs:
            readers.setdefault(tensor, []).append(node)
    return readers


def accepts_strides(tensor: Tensor, readers: dict[Tensor, list[Node]]) -> bool:
    """Whether every reader of a tensor, also through reshapes, takes it as a strided view."""
    from hierarchos.graph.ops.views import Reshape, Split, Transpose
    for node in readers.get(tensor, ()):
        if isinstance(node.op, Reshape | Split | Transpose):
            if not all(accepts_strides(output, readers) for output in node.outputs):
                return False
        elif node.op.strided_inputs != "all" and any(t is tensor and i not in node.op.strided_inputs for i, t in enumerate(node.inputs)):
            return False
    return True
