"""Symbolic tensors, nodes and the graph that tracing builds.

A `Tensor` is one output of a `Node`; a `Node` applies an `Op` to tensors. Nodes are kept in the order in
which they were traced, and that order is the order of execution. Shapes are static: a program is compiled for
each shape.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

ITEM_BYTES = {"f32": 4, "i32": 4, "u32": 4, "f16": 2, "bf16": 2}
NUMPY_NAME = {"f32": "float32", "i32": "int32", "u32": "uint32", "f16": "float32", "bf16": "float32"}       # halves: as rounded floats


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of a tensor: "f32", "i32", "u32", or a half format ("f16", "bf16") that passes give to intermediate results."""

    shape: tuple[int, ...]
    dtype: str = "f32"

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def nbytes(self) -> int:
        return self.size * ITEM_BYTES[self.dtype]


@dataclass(eq=False)
class Node:
    """One application of an op. `region` names the recomputation block that it was traced in."""

    op: object
    inputs: tuple[Tensor, ...]
    specs: tuple[Spec, ...]
    graph: Graph
    index: int
    region: str | None = None
    outputs: tuple[Tensor, ...] = ()


@dataclass(eq=False)
class Tensor:
    """Output `slot` of `node`. Arithmetic operators are attached by `hierarchos.graph.functions`."""

    node: Node
    slot: int

    @property
    def spec(self) -> Spec:
        return self.node.specs[self.slot]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self) -> str:
        return self.spec.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Tensor({type(self.node.op).__name__}#{self.node.index}.{self.slot} {self.dtype}{list(self.shape)})"


@dataclass(eq=False)
class Graph:
    """Nodes in trace order, named outputs, and the leaves: inputs, states and constants.

    compute: the format in which products are computed, "fp32", "bf16" or "fp16" (see `autocast.py`)."""

    nodes: list[Node] = field(default_factory=list)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    region: str | None = None
    compute: str = "fp32"

    def add(self, op, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Appends a node; raises `ShapeError` from `op.infer` when the inputs do not fit."""
        specs = tuple(op.infer([t.spec for t in inputs]))
        node = Node(op, tuple(inputs), specs, self, len(self.nodes), self.region)
        node.outputs = tuple(Tensor(node, slot) for slot in range(len(specs)))
        self.nodes.append(node)
        return node.outputs
