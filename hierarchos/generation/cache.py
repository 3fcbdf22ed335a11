"""Keys and values of earlier tokens, kept in states that each run extends in place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hierarchos.graph import functions as F
from hierarchos.graph.op import tracing
from hierarchos.graph.ops.leaf import State
from hierarchos.graph.tensor import Graph, Spec, Tensor
from hierarchos.models.family import Model
from hierarchos.nn.batch import input_batch, logits_of

PREFIX = "cache/"
SEGMENTS = PREFIX + "segments"      # i32 [B,S]: 1 where a slot holds a token, 0 elsewhere


@dataclass(eq=False)
class KeyValueCache:
    """Slots 0 .. capacity-1 of each row. A run writes its T tokens at `query_offset` (i32 [B], each row its own)."""

    capacity: int
    query_offset: Tensor
    segments: Tensor

    def extend(self, layer: str, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Stores k, v [B,T,Hk,D] and returns the layer's whole [B,S,Hk,D]."""
        return self._write(f"{PREFIX}{layer}/k", k), self._write(f"{PREFIX}{layer}/v", v)

    def _write(self, name: str, rows: Tensor) -> Tensor:
        kept = F.state(name, (rows.shape[0], self.capacity, *rows.shape[2:]))
        return F.write_rows(kept, rows, self.query_offset)


def decode_graph(model: Model, rows: int, length: int, capacity: int) -> Graph:
    """Inputs ids, positions, segments i32 [rows, length]; offset i32 [rows]: slot of each row's first token; last i32 [rows]: which of
    the rows * length tokens to predict from. Output logits [rows, V]. The same graph prefills (length > 1) and decodes (length 1)."""
    with tracing(Graph()) as graph:
        batch = input_batch(rows, length)
        offset, last = F.input("offset", (rows,), "i32"), F.input("last", (rows,), "i32")
        segments = F.write_rows(F.state(SEGMENTS, (rows, capacity), "i32"), batch.segments, offset)
        output = model.forward(model.weights(), replace(batch, cache=KeyValueCache(capacity, offset, segments)))
        hidden = F.gather_rows(F.reshape(output.hidden, (rows * length, output.hidden.shape[-1])), last)
        graph.outputs["logits"] = logits_of(output, hidden)
    return graph


def cache_specs(graph: Graph) -> dict[str, Spec]:
    """The states of the cache that a decode graph uses."""
    return {node.op.name: node.op.spec for node in graph.nodes if isinstance(node.op, State) and node.op.name.startswith(PREFIX)}
