"""Mixed precision: products, attention and the LM head read half operands; everything else stays fp32.

A pass over a differentiated graph, by the rules of PyTorch's autocast:
- operands of products are rounded to the format once, however many products read them (a weight once in a step);
- the result of a product is rounded too where all its readers take halves or are elementwise, which halves what is kept for the backward
  pass; it is fp32 where a residual was folded into it, where it is the gradient of a parameter, and where norms or reductions read it;
- norms, softmax, losses, elementwise arithmetic, reductions, parameters and their gradients are fp32.
Casts are elementwise nodes, which the fusion puts into the kernels around them.
"""
from __future__ import annotations

from dataclasses import fields

from hierarchos.graph.merge import elementwise
from hierarchos.graph.ops.attention import Attention, AttentionBackward
from hierarchos.graph.ops.half import HalfAttention, HalfAttentionBackward, HalfLmHeadLoss, HalfMatMul, HalfRope
from hierarchos.graph.ops.joins import Concat
from hierarchos.graph.ops.lm_head import LmHeadLoss
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.ops.pointwise import Pointwise
from hierarchos.graph.ops.rope import Rope
from hierarchos.graph.ops.views import Contiguous, Expand, Reshape, Split, Transpose
from hierarchos.graph.rewriting import readers_of
from hierarchos.graph.tensor import Graph, Node, Tensor

FORMATS = {"bf16": "bf16", "fp16": "f16"}           # precision.compute -> dtype
VIEWS = Reshape | Transpose | Expand | Split | Contiguous
SAME_SIZE = Reshape | Transpose | Contiguous        # views that show each element once
OPERANDS = {MatMul: (0, 1), Attention: (0, 1, 2), AttentionBackward: (0, 1, 2, 3, 5), LmHeadLoss: (0, 1)}


def autocast(graph: Graph, compute: str) -> Graph:
    """The graph with its products in the format of `compute` ("bf16" or "fp16"); as it is for "fp32"."""
    return graph if compute == "fp32" else Autocast(graph, FORMATS[compute]).rewritten()


class Autocast:
    """Knows each tensor of the old graph in the new one: as fp32 (`wide`), as halves (`narrow`), or both."""

    def __init__(self, graph: Graph, format_: str):
        self.graph, self.format, self.result = graph, format_, Graph()
        self.readers, self.outputs = readers_of(graph), set(graph.outputs.values())
        self.wide: dict[Tensor, Tensor] = {}
        self.narrow: dict[Tensor, Tensor] = {}

    def rewritten(self) -> Graph:
        for node in self.graph.nodes:
            self.result.region = node.region
            self._add(node)
        self.result.region = None
        self.result.outputs = {name: self.as_wide(t) for name, t in self.graph.outputs.items()}
        return self.result

    def as_wide(self, tensor: Tensor) -> Tensor:
        if tensor not in self.wide:
            self.wide[tensor] = self._cast(self.narrow[tensor], "f32")
        return self.wide[tensor]

    def as_half(self, tensor: Tensor) -> Tensor:
        """The rounded tensor; a view shows its rounded source, so that both are rounded together."""
        if tensor not in self.narrow:
            if isinstance(tensor.node.op, SAME_SIZE):
                source = self.as_half(tensor.node.inputs[0])
                self.narrow[tensor] = self.result.add(tensor.node.op, (source,))[0]
            else:
                self.narrow[tensor] = self._cast(self.wide[tensor], self.format)
        return self.narrow[tensor]

    def _cast(self, tensor: Tensor, dtype: str) -> Tensor:
        return self.result.add(Pointwise("cast", (None,), (dtype,)), (tensor,))[0]

    def is_narrow(self, tensor: Tensor) -> bool:
        """Whether the tensor was made as halves."""
        return tensor in self.narrow and tensor not in self.wide

    def takes_half(self, tensor: Tensor) -> bool:
        """Whether every reader of a tensor takes halves, or is elementwise."""
        return tensor not in self.outputs and all(self._takes(node, tensor) for node in self.readers.get(tensor, ()))

    def _takes(self, reader: Node, tensor: Tensor) -> bool:
        slots = OPERANDS.get(type(reader.op))
        if slots is not None:
            return all(i in slots for i, t in enumerate(reader.inputs) if t is tensor)
        if isinstance(reader.op, VIEWS | Concat | Rope):
            return all(self.takes_half(t) for t in reader.outputs)
        return elementwise(reader)

    def _add(self, node: Node) -> None:
        op, slots = node.op, OPERANDS.get(type(node.op))
        if slots is not None:
            inputs = [self.as_half(t) if i in slots else self.as_wide(t) for i, t in enumerate(node.inputs)]
            self._keep(node, self.result.add(self._half_op(node), tuple(inputs)))
        elif type(op) is Rope and self.is_narrow(node.inputs[0]):
            inputs = (self.narrow[node.inputs[0]], *map(self.as_wide, node.inputs[1:]))
            self._keep(node, self.result.add(kin_of(op, HalfRope, format=self.format), inputs))
        elif isinstance(op, VIEWS) and self.is_narrow(node.inputs[0]):
            self._keep(node, self.result.add(op, (self.narrow[node.inputs[0]],)))
        elif isinstance(op, Concat) and self.takes_half(node.outputs[0]):
            self._keep(node, self.result.add(op, tuple(map(self.as_half, node.inputs))))
        else:
            self._keep(node, self.result.add(op, tuple(map(self.as_wide, node.inputs))))

    def _half_op(self, node: Node):
        op = node.op
        if isinstance(op, MatMul):
            rounded = not op.has_residual and self.takes_half(node.outputs[0])
            return kin_of(op, HalfMatMul, result=self.format if rounded else "f32")
        if isinstance(op, LmHeadLoss):
            return kin_of(op, HalfLmHeadLoss)
        return kin_of(op, HalfAttention if isinstance(op, Attention) else HalfAttentionBackward, format=self.format)

    def _keep(self, node: Node, outputs: tuple[Tensor, ...]) -> None:
        for old, new in zip(node.outputs, outputs, strict=True):
            (self.narrow if new.dtype == self.format else self.wide)[old] = new


def kin_of(op, kind: type, **more):
    """The half op with the attributes of an fp32 op."""
    return kind(**{field.name: getattr(op, field.name) for field in fields(op)}, **more)
