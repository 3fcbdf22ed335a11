"""Keys and values of earlier tokens, kept in states that each run extends in place."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hierarchos.graph import functions as F
from hierarchos.graph.op import tracing
from hierarchos.graph.ops.cached_attention import cached_attention
from hierarchos.graph.ops.choose import choose
from hierarchos.graph.ops.leaf import State
from hierarchos.graph.tensor import Graph, Spec, Tensor
from hierarchos.kernels.choose import WORDS
from hierarchos.kernels.gemv import MOST_ROWS
from hierarchos.models.family import Model
from hierarchos.nn.batch import Batch, logits_of

PREFIX = "cache/"
HISTORY = 64  # steps whose tokens the host can still read: more than are ever submitted ahead
STEP = "step/"
SETTINGS, SEEN, IDS, OFFSET, TOKENS = (STEP + name for name in ("settings", "seen", "ids", "offset", "tokens"))
RING = 128  # tokens at most that a run may add to a ring: it holds so many more than its window


@dataclass(eq=False)
class KeyValueCache:
    """Slots of each row, all filled in order: a run writes its tokens at `query_offset` (i32 [B], each row its own), and `count` (i32 [B])
    of them are tokens, the rest padding. A query sees slots up to its own, so that padding behind a row's end is never seen.

    A layer with a window shorter than the capacity keeps a ring of window + RING slots: position p lies in slot p modulo their number."""

    capacity: int
    query_offset: Tensor
    count: Tensor

    def attend(
        self, layer: str, batch: Batch, q: Tensor, k: Tensor, v: Tensor, *, window=None, scale=None, softcap=None, slopes=None
    ) -> Tensor:
        """Stores k, v [B,T,Hk,D] and gives the attention of q over all of the layer's [B,T,Hq,Dv]."""
        slots, ring = slots_of(window, self.capacity), window is not None and slots_of(window, self.capacity) < self.capacity
        keys, values = (F.state(f"{PREFIX}{layer}/{part}", (rows.shape[0], slots, *rows.shape[2:])) for part, rows in (("k", k), ("v", v)))
        few = q.shape[0] * q.shape[1] <= MOST_ROWS  # in the order of sums of single tokens, as their products (kernels/gemv.py)
        if ring or few:
            return cached_attention(
                q,
                k,
                v,
                keys,
                values,
                self.query_offset,
                self.count if ring or q.shape[1] > 1 else None,
                scale=scale,
                window=window,
                softcap=softcap,
                slopes=slopes,
                ring=ring,
            )
        keys, values = F.write_rows(keys, k, self.query_offset), F.write_rows(values, v, self.query_offset)
        return F.attention(
            q, keys, values, causal=True, window=window, scale=scale, query_offset=self.query_offset, softcap=softcap, slopes=slopes
        )


def slots_of(window: int | None, capacity: int) -> int:
    """Tokens of a row that a layer keeps."""
    return capacity if window is None else min(capacity, window + RING)


def decode_graph(model: Model, rows: int, length: int, capacity: int, hidden: bool = False) -> Graph:
    """Inputs ids i32 [rows, length]; offset i32 [rows]: tokens that each row holds already; count i32 [rows]: how many of the ids are
    tokens, the rest being padding on the right. Output logits [rows, V] after the last token of each row (without tokens: of padding).

    The same graph prefills (length > 1) and decodes (length 1). hidden: a second output "hidden" [rows, length, D], what the head reads."""
    with tracing(Graph()) as graph:
        ids = F.input("ids", (rows, length), "i32")
        offset, count = F.input("offset", (rows,), "i32"), F.input("count", (rows,), "i32")
        graph.outputs["logits"], whole = next_logits(model, ids, offset, count, capacity)
        if hidden:
            graph.outputs["hidden"] = whole
    return graph


def next_logits(model: Model, ids: Tensor, offset: Tensor, count: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
    """Logits [rows, V] after the last token of each row, and what the head reads [rows, length, D]. Traced into the current graph."""
    import numpy as np

    rows, length = ids.shape
    steps = F.constant(np.arange(length, dtype=np.int32)[None])
    offsets = F.reshape(offset, (rows, 1))
    positions = F.minimum(offsets + steps, capacity - 1) if length > 1 else offsets  # padding may lie beyond the capacity
    segments = F.cast(F.lt(steps, F.reshape(count, (rows, 1))), "i32")
    batch = Batch(ids, positions, segments, cache=KeyValueCache(capacity, offset, count))
    output = model.forward(model.weights(), batch)
    last = F.reshape(output.hidden, (rows * length, output.hidden.shape[-1]))
    if length > 1:
        first = F.constant(np.arange(rows, dtype=np.int32) * length)
        last = F.gather_rows(last, first + F.maximum(count, 1) - 1)
    return logits_of(output, last), output.hidden


def cache_specs(graph: Graph) -> dict[str, Spec]:
    """The states of the cache that a decode graph uses."""
    return {node.op.name: node.op.spec for node in graph.nodes if isinstance(node.op, State) and node.op.name.startswith(PREFIX)}


def step_graph(model: Model, rows: int, capacity: int) -> Graph:
    """One token of each row without the host: reads and writes the states of `step_specs`. Output tokens i32 [rows, HISTORY]: the token
    that was chosen for position p is at p mod HISTORY."""
    import numpy as np

    specs = step_specs(model, rows)
    with tracing(Graph()) as graph:
        settings, seen, ids, offset, tokens = (F.state(name, spec.shape, spec.dtype) for name, spec in specs.items())
        logits, _ = next_logits(model, ids, offset, F.constant(np.ones(rows, np.int32)), capacity)
        graph.outputs["tokens"] = choose(logits, settings, seen, ids, offset, tokens)[3]
    return graph


def step_specs(model: Model, rows: int) -> dict[str, Spec]:
    """What a step keeps: settings of the choice, tokens that were seen, the newest token, tokens of each row, the last tokens."""
    vocabulary = model.config.vocab_size
    return {
        SETTINGS: Spec((WORDS,), "u32"),
        SEEN: Spec((rows, vocabulary), "u32"),
        IDS: Spec((rows, 1), "i32"),
        OFFSET: Spec((rows,), "i32"),
        TOKENS: Spec((rows, HISTORY), "i32"),
    }


def reorder_graph(specs: dict[str, Spec]) -> Graph:
    """Every row of the cache becomes that of `parents` (input i32 [rows])."""
    with tracing(Graph()) as graph:
        for name, spec in specs.items():
            rows = spec.shape[0]
            parents = F.input("parents", (rows,), "i32")
            kept = F.reshape(F.state(name, spec.shape), (rows, prod(spec.shape[1:])))
            F.assign(F.state(name, spec.shape), F.reshape(F.gather_rows(kept, parents), spec.shape))
    return graph
