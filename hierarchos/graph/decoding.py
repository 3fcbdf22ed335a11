"""Products of few rows in graphs that decode: each becomes one launch with the norm or gate before it folded in (ops/gemv.py).

    y = norm(x); q = y Wq^T              ->  q = gemv(rms, x, Wq)
    h = silu(g) * u; x + h Wd^T          ->  gemv(gated, g, u, Wd, residual x)
    unpack(W16) in place of W            ->  the gemv reads the halves

A norm is folded where all its readers are such products. Only graphs with a cached attention are changed: training keeps its kernels.
"""

from __future__ import annotations

from math import prod

from hierarchos.graph.ops.cached_attention import CachedAttention
from hierarchos.graph.ops.gemv import Gemv
from hierarchos.graph.ops.leaf import State
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.ops.norm import Norm
from hierarchos.graph.ops.pointwise import Pointwise
from hierarchos.graph.ops.unpack import Unpack
from hierarchos.graph.ops.views import Expand, Reshape, Split, Transpose
from hierarchos.graph.rewriting import aliases, readers_of, rewrite
from hierarchos.graph.tensor import Graph, Node, Tensor
from hierarchos.kernels.gemm_layout import ACTIVATIONS
from hierarchos.kernels.gemv import FORMS, takes


def fold_decoding(graph: Graph) -> Graph:
    """Replaces products of few rows; the graph itself where it does not decode."""
    if not any(isinstance(node.op, CachedAttention) for node in graph.nodes):
        return graph
    return Folder(graph).rewritten()


def root(tensor: Tensor) -> Tensor:
    """Whose memory a view reads."""
    while isinstance(tensor.node.op, Reshape | Split | Transpose | Expand):
        tensor = tensor.node.inputs[0]
    return tensor


class Folder:
    """What each product becomes: the op and its inputs in the old graph."""

    def __init__(self, graph: Graph):
        self.graph, self.readers, self.outputs = graph, readers_of(graph), set(graph.outputs.values())
        self.changing = {root(node.inputs[alias.input]) for node in graph.nodes for alias in aliases(node) if alias and alias.mutates}

    def rewritten(self) -> Graph:
        renamed: dict[Tensor, Tensor] = {}

        def change(node: Node, inputs, result: Graph):
            if self.folds(node):
                outputs = self.add(node, renamed, result)
            else:
                outputs = result.add(node.op, inputs)
            renamed.update(zip(node.outputs, outputs, strict=True))
            return outputs

        return rewrite(self.graph, change)

    def folds(self, node: Node) -> bool:
        """Whether a node is a product of few rows with a weight that lies as a linear layer's."""
        op = node.op
        if not isinstance(op, MatMul) or op.transpose_a or not op.transpose_b or not op.fold or op.accumulate:
            return False
        x, weight = node.inputs[:2]
        form = weight.node.op.form if isinstance(weight.node.op, Unpack) else None
        source = weight.node.inputs[0] if form else weight
        floats = all(tensor.dtype == "f32" for tensor in node.inputs)
        return floats and isinstance(source.node.op, State) and takes(x.shape[-1], prod(x.shape[:-1]), form)

    def add(self, node: Node, renamed: dict, result: Graph) -> tuple[Tensor, ...]:
        op, (x, weight, *rest) = node.op, node.inputs
        settings = {"has_bias": op.has_bias, "has_residual": op.has_residual, "activation": op.activation, "scale": op.scale}
        held = renamed[weight]
        if isinstance(weight.node.op, Unpack):  # halves are read as they lie
            settings["half"] = FORMS.index(weight.node.op.form)
            held = result.add(Reshape((weight.shape[0], weight.shape[1] // 2)), (renamed[weight.node.inputs[0]],))[0]
        before, more, extra = self.prologue(x)
        if before.shape[:-1] != x.shape[:-1]:
            lead = x.shape[:-1]
            reshaped = [result.add(Reshape((*lead, t.shape[-1])), (renamed[t],))[0] for t in (before, *more[:extra])]
        else:
            reshaped = [renamed[t] for t in (before, *more[:extra])]
        inputs = (*reshaped, *(renamed[t] for t in more[extra:]), held, *(renamed[t] for t in rest))
        return result.add(Gemv(**self.settings(x), **settings), inputs)

    def source(self, x: Tensor) -> Node:
        """The node behind x, through reshapes that keep its rows."""
        while isinstance(x.node.op, Reshape) and x.node.inputs[0].shape[-1] == x.shape[-1]:
            x = x.node.inputs[0]
        return x.node

    def prologue(self, x: Tensor) -> tuple[Tensor, list[Tensor], int]:
        """x or what it is made from, further inputs, and how many of these have its rows."""
        node = self.source(x)
        if self.normed(node):
            return node.inputs[0], list(node.inputs[1:]), 0
        if self.gated(node):
            gate, second, _ = self.gate(node)
            return gate, [second], 1
        return x, [], 0

    def settings(self, x: Tensor) -> dict:
        node = self.source(x)
        if self.normed(node):
            op = node.op
            return {"prologue": op.kind, "eps": op.eps, "offset": op.weight_offset, "norm_weight": op.weight, "norm_bias": op.bias}
        return {"prologue": "gated", "gate": self.gate(node)[2]} if self.gated(node) else {}

    def normed(self, node: Node) -> bool:
        return isinstance(node.op, Norm) and root(node.inputs[0]) not in self.changing and self.only_products(node.outputs[0])

    def only_products(self, tensor: Tensor) -> bool:
        """Whether products of few rows alone read a tensor, also through reshapes that keep its rows."""
        if tensor in self.outputs:
            return False
        return all(
            self.only_products(node.outputs[0])
            if isinstance(node.op, Reshape) and node.outputs[0].shape[-1] == tensor.shape[-1]
            else self.folds(node) and tensor is node.inputs[0] and tensor not in node.inputs[1:]
            for node in self.readers.get(tensor, ())
        )

    def gated(self, node: Node) -> bool:
        op = node.op
        fits = isinstance(op, Pointwise) and op.primitive == "mul" and op.constants == (None, None)
        return (
            fits
            and node.inputs[0].shape == node.inputs[1].shape == node.specs[0].shape
            and self.only_products(node.outputs[0])
            and not ({root(t) for t in self.gate(node)[:2]} & self.changing)
        )

    def gate(self, node: Node) -> tuple[Tensor, Tensor, str]:
        """The gate before its activation, the other factor, and the activation."""
        for gate, second in (node.inputs, node.inputs[::-1]):
            op = gate.node.op
            if isinstance(op, Pointwise) and op.primitive in ACTIVATIONS and op.constants == (None,):
                return gate.node.inputs[0], second, op.primitive
        return node.inputs[0], node.inputs[1], "none"
