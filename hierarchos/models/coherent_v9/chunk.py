"""The programs of a chunk of tokens: front, one token (forward and backward), head, and the collection of gradients.

    front     inputs -> what tokens contribute, for all of them at once; weights arranged as the steps read them
    token     one step, forward; replayed for each token over its own records of the tape
    head      losses, and the gradients of every token's output (`segment` where one graph is cut into several chunks);
              `losses` or `logits` where nothing is learned
    back      one step, backward; replayed from the last token to the first
    collect   gradients of all learned tensors from what the steps recorded

Learned tensors are states by name; their gradients are added to the states `gradients/NAME`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hierarchos.graph import functions as F
from hierarchos.graph.op import apply, tracing
from hierarchos.graph.ops.embedding import EmbeddingGradient
from hierarchos.graph.tensor import Graph, Spec, Tensor
from hierarchos.models.coherent_v9 import head as heads
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.front import front, front_inputs, front_shapes
from hierarchos.models.coherent_v9.parameters import TABLE, parameters
from hierarchos.models.coherent_v9.pieces import Weights
from hierarchos.models.coherent_v9.prepare import Source, prepare, prepared_shapes, turn
from hierarchos.models.coherent_v9.state import DIFFERENTIABLE, parts_of, recurrent, state_shapes
from hierarchos.models.coherent_v9.tape import Halves, Tape, split
from hierarchos.models.coherent_v9.token import TokenInput, TokenOutput, token

FAST, ALLOWED = "memory/fast", "memory/allowed"     # states: the fast memory; which slots may be read


@dataclass(frozen=True)
class Kind:
    """What programs depend on beside the configuration. rows: of the batch. padded: some columns are padding. own_memory: each row has
    its own fast memory. filtered: some slots may not be read. training: with a backward pass."""

    rows: int
    padded: bool = False
    own_memory: bool = False
    filtered: bool = False
    training: bool = True


@dataclass(eq=False)
class Chunk:
    """Graphs of one configuration and kind; the tape fills up as tokens are traced."""

    cfg: Config
    kind: Kind
    tape: Tape = field(default_factory=Tape)
    steps: dict[bool, Halves] = field(default_factory=dict)         # by "does it plan"
    linear_uses: dict[str, int] = field(default_factory=dict)
    row_uses: dict[str, int] = field(default_factory=dict)

    def __post_init__(self):
        for plan in (True, False) if self.cfg.h_stride > 1 else (True,):
            self.steps[plan] = self._trace(plan)

    def step(self, position: int) -> Halves:
        """The programs of the token at an absolute position."""
        return self.steps[position % self.cfg.h_stride == 0]

    def fast_shape(self) -> tuple[int, ...]:
        slots = (self.cfg.ltm_slots, self.cfg.ltm_val_dim)
        return (self.kind.rows, *slots) if self.kind.own_memory else slots

    # ---- one token

    def _trace(self, plan: bool) -> Halves:
        cfg, tape, prefix = self.cfg, self.tape, "plan." if plan else "step."
        with tracing(Graph()) as graph:
            w = Weights(prepared_shapes(cfg))
            given = self._given()
            before = recurrent(lambda name: tape.record(name, state_shapes(cfg, self.kind.rows)[name]))
            result = token(cfg, w, given, before, plan)
            boundary = len(graph.nodes)
            outputs = self._outputs(result)
            if not self.kind.training:
                halves = split(graph, boundary, tape, outputs, (), (), prefix)
                return Halves(halves.forward, None)
            outputs += [(f"x.{tap.name}#{tap.use}", tap.x, 0) for tap in w.linears]
            results = self._differentiate(w, given, before, result)
        for name in state_shapes(cfg, self.kind.rows):
            tape.carried.add(name)
        return split(graph, boundary, tape, outputs, results, result.keep, prefix)

    def _given(self) -> TokenInput:
        cfg, rows, tape = self.cfg, self.kind.rows, self.tape
        made = {name: tape.record(name, shape) for name, shape in front_shapes(cfg, rows).items()}
        return TokenInput(
            made["query"], made["encoded"], made["gate"], tape.record("share", (1,)), made.get("h_embedding"), made.get("l_embedding"),
            F.state("ltm.vals", (cfg.ltm_slots, cfg.ltm_val_dim)), F.state(FAST, self.fast_shape()),
            tape.record("active", (rows, 1)) if self.kind.padded else None,
            F.state(ALLOWED, (rows, cfg.ltm_slots)) if self.kind.filtered else None)

    def _outputs(self, result: TokenOutput) -> list[tuple[str, Tensor, int]]:
        outputs = [(name, tensor, 1) for name, tensor in parts_of(result.after).items()]
        outputs += [(name, getattr(result, name), 0) for name in ("out", "commitment", "worker_steps", "index", "value")]
        return outputs + ([] if result.depth is None else [("depth", result.depth, 0)])

    def _differentiate(self, w: Weights, given: TokenInput, before, result: TokenOutput) -> list[tuple[str, Tensor, int]]:
        """(name, gradient, record offset) of everything that a token's backward pass writes."""
        tape = self.tape
        after, earlier = parts_of(result.after), parts_of(before)
        ends = {"d.out": (result.out, 0), "d.commitment": (result.commitment, 0)}
        ends |= {} if result.halting is None else {"d.halting": (result.halting, 0)}
        ends |= {f"d.{name}": (after[name], 1) for name in DIFFERENTIABLE}
        seeds = [tape.record(name, tensor.shape, "f32", offset) for name, (tensor, offset) in ends.items()]
        wanted = {f"d.{name}": tensor for name, tensor in self._front_leaves(given).items()}
        wanted |= {f"d.{name}": earlier[name] for name in DIFFERENTIABLE} | {"d.value": result.value}
        wanted |= {f"y.{tap.name}#{tap.use}": tap.y for tap in w.linears} | {f"r.{tap.name}#{tap.use}": tap.rows for tap in w.rows}
        for tap in w.linears:
            self.linear_uses[tap.name] = max(self.linear_uses.get(tap.name, 0), tap.use + 1)
        for tap in w.rows:
            self.row_uses[tap.name] = max(self.row_uses.get(tap.name, 0), tap.use + 1)
        found = F.gradients([tensor for tensor, _ in ends.values()], list(wanted.values()), seeds)
        return [(name, F.full(tensor.shape, 0.0) if gradient is None else gradient, 0)
                for (name, tensor), gradient in zip(wanted.items(), found, strict=True)]

    def _front_leaves(self, given: TokenInput) -> dict[str, Tensor]:
        found = {"query": given.query, "encoded": given.encoded, "gate": given.gate}
        if self.cfg.use_deepembed:
            found |= {"h_embedding": given.h_embedding, "l_embedding": given.l_embedding}
        return found

    # ---- all tokens at once

    def _source(self) -> Source:
        shapes, known = {spec.name: spec.shape for spec in parameters(self.cfg)}, {}

        def source(name: str) -> Tensor:
            if name not in known:
                known[name] = F.state(name, shapes[name])
            return known[name]
        return source

    def records(self, name: str, length: int, first: int = 0) -> Tensor:
        """Records `first` .. of a tape tensor, one for each token."""
        spec = self.tape.whole(name, length)
        whole = F.state(f"tape/{name}", spec.shape, spec.dtype)
        return whole if spec.shape[0] == length else F.slice(whole, 0, first, first + length)

    def front(self, length: int, arrange: bool) -> Graph:
        """Writes what tokens contribute. Inputs: see `front_inputs`, share [T,1], active [T,B,1] where rows are padded.

        arrange: also arranges the weights (the first chunk after they changed)."""
        with tracing(Graph()) as graph:
            p = self._source()
            made = front(self.cfg, p, front_inputs(self.cfg, length, self.kind.rows)) | {"share": F.input("share", (length, 1))}
            if self.kind.padded:
                made["active"] = F.input("active", (length, self.kind.rows, 1))
            for name, tensor in made.items():
                F.assign(F.state(f"tape/{name}", tensor.shape), tensor)
            arranged = prepare(self.cfg, p) if arrange else {}
            for name, tensor in (arranged | (turn(arranged) if self.kind.training else {})).items():
                F.assign(F.state(f"prepared/{name}", tensor.shape), tensor)
        return graph

    def arrange(self) -> Graph:
        """Arranges the weights alone."""
        with tracing(Graph()) as graph:
            for name, tensor in prepare(self.cfg, self._source()).items():
                F.assign(F.state(f"prepared/{name}", tensor.shape), tensor)
        return graph

    def head(self, length: int) -> Graph:
        """Losses (outputs, [1] each) and the gradients that the tokens' backward passes start from."""
        return self._head(length, heads.objective, heads.SCALARS)

    def segment(self, length: int) -> Graph:
        """The same for a segment of a graph whose objective is known as a whole."""
        return self._head(length, heads.segment, heads.OF_A_SEGMENT)

    def losses(self, length: int) -> Graph:
        """The losses alone."""
        with tracing(Graph()) as graph:
            graph.outputs.update(heads.objective(self.cfg, self._source(), self._head_input(length, heads.SCALARS)).losses)
        return graph

    def _head_input(self, length: int, scalars: Sequence[str]) -> heads.HeadInput:
        given = heads.head_inputs(length, self.kind.rows, lambda name, shape: self.records(name, length), len(scalars))
        return replace(given, out=self.records("out", length))

    def _head(self, length: int, objective: Callable[..., heads.HeadResult], scalars: Sequence[str]) -> Graph:
        with tracing(Graph()) as graph:
            p = self._source()
            given = self._head_input(length, scalars)
            result = objective(self.cfg, p, given)
            graph.outputs.update(result.losses)
            norms = [p("out_norm.weight"), p("out_norm.bias")]
            d_out, *d_norms = F.gradients([result.y], [given.out, *norms], [result.dy])
            self._write("d.out", d_out)
            self._write("d.commitment", result.d_commitment)
            if "d.halting" in self.tape.specs:
                self._write("d.halting", result.d_halting)
            found = dict(zip(("out_norm.weight", "out_norm.bias"), d_norms, strict=True)) | {TABLE: result.dtable}
            if result.alignment is not None:
                found["val_proj.weight"] = F.gradients([result.alignment], [p("val_proj.weight")], [result.d_alignment])[0]
            self._add(found)
        return graph

    def _write(self, name: str, value: Tensor) -> None:
        F.assign(F.state(f"tape/{name}", value.shape), value)

    def _add(self, found: dict[str, Tensor]) -> None:
        for name, gradient in found.items():
            total = F.state(f"gradients/{name}", gradient.shape)
            F.assign(total, total + gradient)

    def logits(self, length: int) -> Graph:
        """Output logits [T,B,V] of the tokens' outputs."""
        with tracing(Graph()) as graph:
            graph.outputs["logits"] = heads.logits(self.cfg, self._source(), self.records("out", length))
        return graph

    def collect(self, length: int) -> Graph:
        """Gradients of all learned tensors below the head, added to the gradient states."""
        cfg, rows = self.cfg, self.kind.rows
        with tracing(Graph()) as graph:
            p = self._source()
            made, arranged = front(cfg, p, front_inputs(cfg, length, rows)), prepare(cfg, p)
            seeds = {name: self._weight_gradient(name, length) for name in self.linear_uses}
            for name in self.row_uses:
                total = self._row_gradient(name, length)
                seeds[name] = total if name not in seeds else seeds[name] + total
            ends = [*made.values(), *(arranged[name] for name in seeds)]
            starts = [*(self.records(f"d.{name}", length) for name in made), *seeds.values()]
            wanted = [spec.name for spec in parameters(cfg) if spec.name not in ("ltm.vals", "val_proj.weight")]
            found = dict(zip(wanted, F.gradients(ends, [p(name) for name in wanted], starts), strict=True))
            index, values = self.records("index", length), self.records("d.value", length)
            found["ltm.vals"] = apply(EmbeddingGradient(cfg.ltm_slots), values, index)[0]
            self._add({name: gradient for name, gradient in found.items() if gradient is not None})
        return graph

    def _weight_gradient(self, name: str, length: int) -> Tensor:
        """Sum over tokens, rows and uses of dy^T x."""
        total = None
        for use in range(self.linear_uses[name]):
            x, dy = (self._stacked(self.records(f"{letter}.{name}#{use}", length)) for letter in "xy")
            part = F.matmul(dy, x, transpose_a=True)
            total = part if total is None else total + part
        return total

    def _stacked(self, x: Tensor) -> Tensor:
        """[T,B,K] -> [T B, K]; [T,n,B,K] -> [n, T B, K]."""
        if x.rank == 3:
            return F.reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))
        length, kinds, rows, width = x.shape
        return F.reshape(F.contiguous(F.transpose(x, (1, 0, 2, 3))), (kinds, length * rows, width))

    def _row_gradient(self, name: str, length: int) -> Tensor:
        total = None
        for use in range(self.row_uses[name]):
            rows = self.records(f"r.{name}#{use}", length)
            part = F.sum(rows, (0, rows.rank - 2))
            total = part if total is None else total + part
        return total

    def tape_specs(self, length: int) -> dict[str, Spec]:
        """All records of `length` tokens, by name."""
        return {name: self.tape.whole(name, length) for name in self.tape.specs}
