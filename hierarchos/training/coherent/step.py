"""One optimizer step of coherent-v9: batches in chunks with carried state, their gradients added, then AdamW."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.coherent.machine import Machine
from hierarchos.errors import UserError
from hierarchos.models.coherent_v9 import feeds
from hierarchos.models.coherent_v9.chunk import FAST, Chunk, Kind
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.feeds import Rows, Span, plan_spans
from hierarchos.models.coherent_v9.foretell import Foretold
from hierarchos.models.coherent_v9.memory import TRAINING, FastMemory, prepared_gradients
from hierarchos.models.coherent_v9.rosa import Automaton
from hierarchos.training.coherent.replay_file import Running
from hierarchos.training.coherent.state import CoherentState
from hierarchos.training.coherent.whole_sample import whole_sample
from hierarchos.training.step import StepResult

if TYPE_CHECKING:
    import numpy as np

ROUND = 16                          # padded chunks are as long as a multiple of so many tokens: fewer programs


@dataclass(frozen=True)
class Objective:
    """max_ce: a chunk's loss above it gives no gradient (0: no limit). normalization: "weighted-token" or "microbatch"."""

    max_ce: float = 0.0
    normalization: str = "weighted-token"
    grad_clip: float = 1.0


class CoherentStep:
    """Runs steps over a `CoherentState`. `rows` and `length`: the largest batch; padded: some of its positions are padding.

    persist: a batch's rows go on from the state that the rows of the batch before left. recompute: the one graph of full_sample_bptt
    is cut into segments of training_chunk_size tokens, of which one at a time is in memory."""

    def __init__(self, state: CoherentState, rows: int, length: int, padded: bool, objective: Objective,
                 chunk: Chunk | None = None, persist: bool = False, recompute: bool = False):
        cfg = state.cfg
        self.state, self.cfg, self.rows, self.objective, self.padded = state, cfg, rows, objective, padded
        self.chunk = chunk_length(cfg, length, recompute)
        self.segmented = cfg.full_sample_bptt and self.chunk < length
        self.inner = cfg.ltm_training_mode == "inner-update"
        kind = Kind(rows, padded=padded, own_memory=self.inner and cfg.isolate_batch_ltm)
        self.machine = Machine(state.memory, kind, self.chunk, chunk)
        self.persist, self.begun = persist, False
        self.automata: list[Automaton] | None = None        # that go on, and the fast memory that does
        self.fast: FastMemory | None = None
        self.losses: dict[str, float] = {}
        self.window = 0                                     # batches of a whole step; 0: as many as it is given
        self.coming: dict[int, tuple] = {}                  # (batch, what `ahead` made of it) by identity
        self.memory_rate: Callable[[int], float | None] = lambda step: None      # of inner updates; None: ltm_lr

    def step_program(self, rows: int, length: int):
        """Compiles what a batch of this shape needs, before the first step is timed."""
        return self.machine.recording("segment" if self.segmented else "step", 0, min(self.chunk, length))

    def gradient_program(self, rows: int, length: int, accumulate: bool):
        """The same programs serve batches whose gradients are added."""
        return self.step_program(rows, length)

    def end(self, span: Span) -> int:
        """Where the programs stop: rounded up within the chunk where there may be padding."""
        length = span.end - span.start
        return span.start + (min(self.chunk, -(-length // ROUND) * ROUND) if self.padded else length)

    def run(self, batches: Sequence[dict], step: int, rate: float) -> StepResult:
        """Step `step` (0-based) over `batches` with learning rate `rate`."""
        made = [self.ahead(batch) for batch in batches]
        for batch in batches:
            self.coming.pop(id(batch), None)
        batches, first = made, step * (self.window or len(made))
        masses = [rows.mass() for rows, _ in batches]
        if not all(mass > 0 for mass in masses):
            raise UserError("a batch has no trained label behind its first column", where="data", hint="nothing would be learned from it",
                            outcome="the step was not applied")
        total, self.losses, score = sum(masses), {}, 0.0
        self.state.clear_gradients()
        for number, ((rows, rosa), mass) in enumerate(zip(batches, masses, strict=True)):
            self.state.warmup_step = self.state.warmup_start + float(first + number)
            scale = mass / total if self.objective.normalization == "weighted-token" else 1.0 / len(batches)
            score += self.batch(rows, scale, total, self.memory_rate(step), rosa)
        norm = self.state.update(step + 1, rate)
        if self.cfg.ltm_value_alignment_weight > 0:
            writer = self.state.store.read("val_proj.weight").astype("float64")
            self.state.writer.update(self.cfg, score / len(batches), float((writer * writer).sum() ** 0.5))
        return StepResult(self.losses["ce"], norm, total)

    def ahead(self, batch: dict) -> tuple[Rows, Foretold | None]:
        """The rows of a batch, whose predictions a thread begins to make; asked for earlier, they are ready when its step comes."""
        if id(batch) not in self.coming:
            rows = rows_of(batch)
            self.coming[id(batch)] = batch, (rows, self.foretold(rows))
        return self.coming[id(batch)][1]

    def foretold(self, rows: Rows) -> Foretold | None:
        if self.persist and self.cfg.use_rosa and self.automata is None:
            self.automata = feeds.automata(self.cfg, self.rows)
        return Foretold(self.cfg, self.whole(rows), self.chunk, self.automata) if self.cfg.use_rosa else None

    def batch(self, rows: Rows, scale: float, total: float, memory_rate: float | None, rosa: Foretold | None = None) -> float:
        """Adds the gradients of one batch; returns its alignment cost."""
        rosa = rosa or self.foretold(rows)
        if not (self.persist and self.begun):
            self.clear()
        self.begun = True
        score, whole, spans = 0.0, self.whole(rows), plan_spans(rows, self.chunk)
        if self.segmented:
            losses = whole_sample(self, whole, spans, scale, rosa).losses
            self._note({name: value * scale for name, value in losses.items()})
            return losses["alignment_cost"]
        for span in spans:
            end = self.end(span)
            scalars = (scale * span.label_ratio, scale * span.token_ratio, self.objective.max_ce)
            found = self.machine.run("step", whole, span.start, end, span.start, rosa, self.state.warmup_step, scalars)
            self._account(found, scale, span)
            score += float(found["alignment_cost"][0]) * span.token_ratio
            if self.inner:
                self._remember(self.fast, span, end - span.start, total, memory_rate)
        return score

    def clear(self) -> None:
        """The state before the first token, and an empty fast memory."""
        self.machine.reset()
        self.fast = FastMemory.empty(self.cfg, self.rows if self.machine.kind.own_memory else None) if self.inner else None

    def running(self) -> Running | None:
        """What the next batch goes on from; None where it starts from nothing."""
        return Running(self.machine.read_state(), self.automata, self.fast) if self.persist and self.begun else None

    def go_on(self, running: Running) -> None:
        """Puts a running state in place."""
        self.machine.write_state(running.parts)
        self.automata, self.fast, self.begun = running.rosa, running.fast, True
        if self.fast is not None:
            self.state.store.write(self.machine.own(FAST), self.fast.values)

    def _account(self, found: dict[str, np.ndarray], scale: float, span: Span) -> None:
        """Means over the step, each part by its share."""
        shares = {"objective": 1.0, "ce": scale * span.label_ratio, "z_loss": scale * span.label_ratio}
        self._note({name: float(value[0]) * shares.get(name, scale * span.token_ratio) for name, value in found.items()})

    def _note(self, parts: dict[str, float]) -> None:
        for name, value in parts.items():
            self.losses[name] = self.losses.get(name, 0.0) + value

    def _remember(self, fast: FastMemory, span: Span, length: int, total: float, rate: float | None) -> None:
        """Writes the memory from the gradients of what was retrieved (the ablation `inner-update`)."""
        index = self.machine.read("index", length).swapaxes(0, 1)
        scale = total if self.objective.normalization == "weighted-token" else 1.0
        gradients = self.machine.read("d.value", length).swapaxes(0, 1) * scale
        ready = prepared_gradients(gradients.astype("float32"), self.objective.grad_clip)
        fast.write(self.cfg, index, ready, self.cfg.ltm_lr if rate is None else rate, span.end - span.start, float(span.end), TRAINING)
        self.state.store.write(self.machine.own(FAST), fast.values)

    def evaluate(self, batches: Iterable[dict]) -> float:
        """Mean cross-entropy of a trained label over `batches`."""
        total, weight, running = 0.0, 0.0, self.running()
        for batch in batches:
            rows = rows_of(batch)
            whole = self.whole(rows)
            self.machine.reset()
            rosa = Foretold(self.cfg, whole, self.chunk) if self.cfg.use_rosa else None
            for span in plan_spans(rows, self.chunk):
                found = self.machine.run("loss", whole, span.start, self.end(span), span.start, rosa, self.state.warmup_step)
                total += float(found["ce"][0]) * span.prediction_weight
                weight += span.prediction_weight
        if running is not None:
            self.go_on(running)
        return total / (weight or 1.0)

    def whole(self, rows: Rows) -> Rows:
        """The batch with as many rows and columns as the programs have; what is added is padding."""
        import numpy as np

        if not self.padded:
            return rows
        length = -(-rows.length // self.chunk) * self.chunk
        more = self.rows - len(rows.ids)
        grow, ahead = ((0, more), (0, length - rows.length)), ((0, more), (0, max(0, length + 1 - rows.labels.shape[1])))
        return Rows(np.pad(rows.ids, grow), np.pad(rows.labels, ahead, constant_values=feeds.IGNORED), np.pad(rows.mask, grow),
                    np.pad(rows.weights, ahead))


def chunk_length(cfg: Config, length: int, recompute: bool) -> int:
    """Tokens of the longest tape, for batches of `length` columns."""
    return length if cfg.full_sample_bptt and not recompute else min(cfg.training_chunk_size, length)


def rows_of(batch: dict) -> Rows:
    """A batch of `hierarchos.data`: targets stand one position before their label, segment 0 is padding."""
    import numpy as np

    targets, weights = batch["targets"], batch["token_weights"]
    first = ((0, 0), (1, 0))
    trained = (targets >= 0) & (weights > 0)
    labels = np.pad(np.where(trained, targets, feeds.IGNORED), first, constant_values=feeds.IGNORED)
    mask = (batch["segments"] > 0).astype(np.int32)
    return Rows(batch["ids"], labels, mask, np.pad(np.where(trained, weights, 0.0).astype(np.float32), first))
