"""The contract of an operation: one class holds all that the system must know about it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.graph.tensor import Graph, Node, Spec, Tensor

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.kernels.launch import Lowering, Operand, Profile


class ShapeError(ValueError):
    """Inputs of an operation do not fit each other; the message names the operation and the shapes."""


@dataclass(frozen=True)
class Alias:
    """An output that shares the memory of input `input`: element offset and strides into its storage.

    `mutates=True`: the op writes that memory in place (state updates); later readers must use the output."""

    input: int
    offset: int = 0
    strides: tuple[int, ...] | None = None          # None: same layout as the input
    mutates: bool = False


class Op:
    """Base of all operations. Subclasses are frozen dataclasses: their fields are the attributes.

    Optional inputs are left out of `inputs`, and a flag among the attributes says so."""

    strided_inputs: tuple[int, ...] | str = ()      # inputs that may be strided views; "all" for every one
    strided_outputs: tuple[int, ...] | str = ()     # outputs that may be written with any strides (last one 1); "all" for every one
    effect = False                                  # True: kept though nothing reads its outputs

    def infer(self, inputs: list[Spec]) -> list[Spec]:
        """Output specs; raises ShapeError."""
        raise NotImplementedError

    def vjp(self, node: Node, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """Gradient of each input from the gradient of each output, in terms of other ops.

        None stands for "no gradient": in for an output nobody differentiates, out for an integer input."""
        raise NotImplementedError(f"{type(self).__name__} has no derivative")

    def reference(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """The NumPy twin. Computes in the dtype of its inputs, so that float64 inputs give the truth."""
        raise NotImplementedError

    def lower(self, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
        """Launches that compute the outputs on a device of this profile."""
        raise NotImplementedError

    def alias(self, slot: int, inputs: list[Operand]) -> Alias | None:
        """How output `slot` lies in an input's memory, or None when it has memory of its own.

        May depend on how the inputs lie: a reshape of a strided view needs memory of its own."""
        return None


def apply(op: Op, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Traces `op` into the graph of its inputs (or the current graph for a leaf)."""
    graph = inputs[0].node.graph if inputs else current_graph()
    return graph.add(op, inputs)


_tracing: list[Graph] = []


def current_graph() -> Graph:
    """The graph of the innermost `with tracing(graph):`."""
    assert _tracing, "no graph is being traced"
    return _tracing[-1]


class tracing:
    """`with tracing(graph):` makes `graph` the one that leaves are added to."""

    def __init__(self, graph: Graph):
        self.graph = graph

    def __enter__(self) -> Graph:
        _tracing.append(self.graph)
        return self.graph

    def __exit__(self, *_):
        _tracing.pop()
