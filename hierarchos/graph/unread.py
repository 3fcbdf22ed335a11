"""Results that an op can leave out where nobody reads them: the gradient of a frozen head, which is as large as the head."""
from __future__ import annotations

from dataclasses import replace

from hierarchos.graph.ops.lm_head import LmHeadLoss
from hierarchos.graph.rewriting import readers_of, rewrite
from hierarchos.graph.tensor import Graph, Node

WEIGHT = 3                                          # output of LmHeadLoss: the gradient of the head


def leave_out_unread(graph: Graph) -> Graph:
    """Runs when dead nodes are gone, so that every reader counts."""
    readers, outputs = readers_of(graph), set(graph.outputs.values())

    def unread(node: Node) -> bool:
        return isinstance(node.op, LmHeadLoss) and node.op.with_gradients and not readers.get(node.outputs[WEIGHT]) \
            and node.outputs[WEIGHT] not in outputs

    def change(node: Node, inputs, result: Graph):
        return result.add(replace(node.op, weight_gradient=False) if unread(node) else node.op, inputs)
    return rewrite(graph, change)
