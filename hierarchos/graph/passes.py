"""Rewrites of a graph before it is planned. Every pass makes a new graph and keeps outputs, effects and their order."""
from __future__ import annotations

from collections.abc import Callable

from hierarchos.graph.autocast import autocast
from hierarchos.graph.decoding import fold_decoding
from hierarchos.graph.epilogues import fold_activations, fold_into_producers
from hierarchos.graph.fusion import fuse
from hierarchos.graph.hazards import Hazards
from hierarchos.graph.joins import place_joins
from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.merge import elementwise
from hierarchos.graph.ops.leaf import Constant, Full, Leaf
from hierarchos.graph.ops.views import Contiguous
from hierarchos.graph.recompute import compute_again
from hierarchos.graph.rewriting import rewrite, writes
from hierarchos.graph.ropes import merge_ropes
from hierarchos.graph.siblings import merge_siblings
from hierarchos.graph.tensor import Graph, Node, Tensor
from hierarchos.graph.unread import leave_out_unread
from hierarchos.kernels.launch import Operand, row_major


def optimise(graph: Graph, layout: StoreLayout | None = None) -> Graph:
    """All passes, in order."""
    overlap = layout.overlap if layout else (lambda first, second: first == second)
    refuse_stale_reads(graph, overlap)
    compute = graph.compute
    graph = merge_equal(leave_out_unread(remove_dead(graph)))
    graph = merge_ropes(remove_dead(merge_siblings(fold_into_producers(graph, overlap), layout)))
    graph = compute_again(autocast(fold_activations(graph), compute), overlap)
    graph = remove_dead(fuse(fold_decoding(graph), overlap))
    return make_contiguous(remove_dead(place_joins(graph)))


def refuse_stale_reads(graph: Graph, overlap: Callable[[str, str], bool]) -> None:
    """Raises ValueError where a state is read through a tensor that was traced before the state was written."""
    hazards = Hazards(graph, overlap)
    for step, node in enumerate(graph.nodes):
        for tensor in node.inputs if hazards.writes and hazards.writes[0][0] < step else ():
            if hazards.written_between([tensor], hazards.steps[tensor.node], step):
                name = hazards.state[tensor]
                raise ValueError(f"{type(node.op).__name__} (step {step}) reads the state {name!r} through a tensor of step "
                                 f"{hazards.steps[tensor.node]}, but the state was written since; read what the writing op returned, "
                                 f"or a new state({name!r}, ...)")


def merge_equal(graph: Graph) -> Graph:
    """Computes equal nodes once. Elementwise ones are left to fusion, which would rather compute again than store."""
    known: dict = {}

    def change(node: Node, inputs, result: Graph):
        leaf = isinstance(node.op, Leaf) and not isinstance(node.op, Constant | Full)
        if leaf or elementwise(node) or writes(node):
            return result.add(node.op, inputs)
        key = (node.op, inputs, node.region)
        if key not in known:
            known[key] = result.add(node.op, inputs)
        return known[key]
    return rewrite(graph, change)


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
