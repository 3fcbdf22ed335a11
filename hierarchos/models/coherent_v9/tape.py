"""Names of what the tokens of a chunk leave for each other and for the backward pass, and the split of one traced token into two programs.

A tape tensor NAME holds one record for each token: the state `tape/NAME` has shape [records, ...]. Programs of one token call a record
`NAME@0` (the token's own) or `NAME@1` (the next one's); who runs them says which token that is.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hierarchos.graph import functions as F
from hierarchos.graph.op import tracing
from hierarchos.graph.ops.leaf import Leaf, State
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.ops.pointwise import Pointwise
from hierarchos.graph.ops.views import View
from hierarchos.graph.passes import remove_dead
from hierarchos.graph.rewriting import rewrite
from hierarchos.graph.tensor import Graph, Node, Spec, Tensor


@dataclass(eq=False)
class Tape:
    """Specs of one record by name, and whether there is one record more than tokens (what a token hands to the next)."""

    specs: dict[str, Spec] = field(default_factory=dict)
    carried: set[str] = field(default_factory=set)

    def record(self, name: str, shape: tuple[int, ...], dtype: str = "f32", offset: int = 0) -> Tensor:
        """The record of this token (offset 0) or the next (1), as a state leaf."""
        spec = Spec(tuple(shape), dtype)
        known = self.specs.setdefault(name, spec)
        assert known == spec, f"{name} is recorded as {known} and as {spec}"
        if offset:
            self.carried.add(name)
        return F.state(f"{name}@{offset}", spec.shape, dtype)

    def write(self, name: str, value: Tensor, offset: int = 0) -> None:
        """Writes a record of this token or the next."""
        F.assign(self.record(name, value.shape, value.dtype, offset), value)

    def whole(self, name: str, length: int) -> Spec:
        """The spec of all records of `length` tokens."""
        spec = self.specs[name]
        return Spec((length + (name in self.carried), *spec.shape), spec.dtype)


@dataclass(frozen=True, eq=False)
class Halves:
    """Programs of one token: forward and backward."""

    forward: Graph
    backward: Graph | None


def split(graph: Graph, boundary: int, tape: Tape, outputs: Iterable[tuple[str, Tensor, int]], results: Iterable[tuple[str, Tensor, int]],
          keep: Iterable[Tensor], prefix: str) -> Halves:
    """Cuts a traced token at node `boundary`. outputs, results: (name, tensor, record offset) that forward and backward write.

    What backward reads of forward is recorded, except elementwise results and views, which it computes again (unless in `keep`)."""
    outputs = list(outputs)
    named = {tensor: name for name, tensor, offset in outputs if offset == 0}
    saved = needed_forward(graph, boundary, set(keep), [t for _, t, _ in results])
    forward, renamed = copied(graph.nodes[:boundary], {})
    with tracing(forward):
        for name, tensor, offset in outputs:
            tape.write(name, renamed[tensor], offset)
        for tensor in saved:
            if tensor not in named:
                named[tensor] = f"{prefix}{len(named)}"
                tape.write(named[tensor], renamed[tensor])
    with tracing(Graph()) as backward:
        given = {tensor: tape.record(named[tensor], tensor.shape, tensor.dtype) for tensor in saved}
    backward, renamed = copied(graph.nodes, given, backward)
    with tracing(backward):
        for name, tensor, offset in results:
            tape.write(name, renamed[tensor], offset)
    return Halves(forward, turned(remove_dead(backward)))


def turned(graph: Graph) -> Graph:
    """Products with a weight as it lies become products with its transpose, `NAME^T`: kernels for few rows read a weight along its rows."""
    def change(node: Node, inputs: tuple[Tensor, ...], result: Graph) -> tuple[Tensor, ...]:
        op = node.op
        weight = inputs[1].node.op if isinstance(op, MatMul) else None
        if not (isinstance(weight, State) and weight.name.startswith("prepared/")) or op.transpose_a or op.transpose_b:
            return result.add(op, inputs)
        shape = weight.spec.shape
        with tracing(result):
            if shape[0] == 1 and len(shape) == 2:
                return (inputs[0] * inputs[1],)
            other = F.state(f"{weight.name}^T", (*shape[:-2], shape[-1], shape[-2]))
        return result.add(replace(op, transpose_b=True), (inputs[0], other))
    return rewrite(graph, change)


def needed_forward(graph: Graph, boundary: int, keep: set[Tensor], results: list[Tensor]) -> list[Tensor]:
    """Tensors of the forward half to record for the backward half."""
    needed = {t for node in graph.nodes[boundary:] for t in node.inputs} | set(results)
    saved = []
    for node in reversed(graph.nodes[:boundary]):
        wanted = [t for t in node.outputs if t in needed]
        if not wanted or isinstance(node.op, Leaf):
            continue
        if cheap(node) and not keep.intersection(node.outputs):
            needed.update(node.inputs)
        else:
            saved += wanted
    return saved[::-1]


def cheap(node: Node) -> bool:
    """Whether computing it again costs less than recording it: views, and elementwise results that no product could have written itself."""
    if isinstance(node.op, View):
        return True
    product = isinstance(node.op, Pointwise) and node.op.primitive == "add" and any(isinstance(t.node.op, MatMul) for t in node.inputs)
    return isinstance(node.op, Pointwise) and not product


def copied(nodes: list[Node], given: dict[Tensor, Tensor], graph: Graph | None = None) -> tuple[Graph, dict[Tensor, Tensor]]:
    """A graph with the nodes, where `given` tensors are replaced; those that nothing needs are dropped later."""
    graph, renamed = graph or Graph(), dict(given)
    for node in nodes:
        if all(t in renamed for t in node.outputs):
            continue
        outputs = graph.add(node.op, tuple(renamed[t] for t in node.inputs))
        for old, new in zip(node.outputs, outputs, strict=True):
            renamed.setdefault(old, new)
    return graph, renamed
