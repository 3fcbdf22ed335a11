"""A conversation's state on a device: tokens go in, logits come out, everything carried stays there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hierarchos.coherent.machine import Machine, Memory
from hierarchos.errors import UserError
from hierarchos.models.coherent_v9 import feeds
from hierarchos.models.coherent_v9.chunk import ALLOWED, FAST, Kind
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.feeds import Rows
from hierarchos.models.coherent_v9.memory import USER, FastMemory, may_write, writer_values
from hierarchos.models.coherent_v9.state import clamped

if TYPE_CHECKING:
    import numpy as np

PIECES = (64, 16, 1)  # tokens of one run, largest first: every length is made of these


class CoherentSession:
    """One conversation, or several rows in step. `writes`: after each token its value is written to the fast memory (off by default).

    memory: what lies in the fast memory at the start; None: nothing. own_memory: rows have fast memories of their own; None: as the
    configuration says. filtered: only some slots may be read, see `filter`."""

    def __init__(
        self,
        cfg: Config,
        values: Mapping[str, np.ndarray],
        device,
        rows: int = 1,
        *,
        warmup_step: float = 0.0,
        writes: bool = False,
        memory: FastMemory | None = None,
        own_memory: bool | None = None,
        filtered: bool = False,
        longest: int = PIECES[0],
    ):
        if writes and not may_write(cfg):
            raise UserError(
                "the memory's value writer is not trained, so nothing is written at inference",
                where="coherent.hebbian_writes",
                hint="train longer (val_proj_trained), or set model.config.allow_untrained_hebbian_writer=true",
            )
        self.cfg, self.rows, self.warmup_step, self.writes = cfg, rows, warmup_step, writes
        self.memory = Memory(cfg, device, training=False)
        self.memory.load(values)
        self.pieces = tuple(size for size in PIECES if size <= longest)
        own_memory = cfg.isolate_batch_ltm and writes and rows > 1 if own_memory is None else own_memory
        self.begin = memory or FastMemory.empty(cfg, rows if own_memory else None)
        self.machine = Machine(self.memory, Kind(rows, own_memory=own_memory, filtered=filtered, training=False), self.pieces[0])
        self.writer = np_array(values["val_proj.weight"]) if writes else None
        self.reset()

    def reset(self, keep_memory: bool = False) -> None:
        """Forgets everything; keep_memory: but what was written to the fast memory."""
        self.machine.reset()
        self.position, self.rosa = 0, feeds.automata(self.cfg, self.rows) if self.cfg.use_rosa else None
        self.set_memory(self.fast if keep_memory else self.begin.copy())
        self.telemetry: list[dict[str, np.ndarray]] = []

    def set_memory(self, fast: FastMemory) -> None:
        """Puts a fast memory in place."""
        self.fast = fast
        self.memory.store.write(self.machine.own(FAST), fast.values)

    def filter(self, source: int | None = None, earliest: float = 0.0, since: float = 0.0) -> None:
        """Lets only slots of one source, written since a position or since a time, be read."""
        assert self.machine.kind.filtered, "made without filtered=True"
        self.memory.store.write(self.machine.own(ALLOWED), self.fast.allowed(self.rows, source, earliest, since))

    def feed(self, tokens: Sequence[Sequence[int]] | Sequence[int]) -> np.ndarray:
        """Takes tokens [rows, n] (or [n] of one row) and returns logits [rows, n, V]. Raises UserError where one is not finite."""
        import numpy as np

        ids = np.atleast_2d(np.asarray(tokens, np.int64))
        check_tokens(ids, self.cfg.vocab_size)
        rows, done, found = Rows.of(ids), 0, []
        while done < ids.shape[1]:
            size = 1 if self.writes else next(size for size in self.pieces if size <= ids.shape[1] - done)
            found.append(self._run(rows, done, done + size))
            done += size
        return np.concatenate(found, 1)

    def _run(self, rows: Rows, start: int, end: int) -> np.ndarray:
        import numpy as np

        logits = self.machine.run("logits", rows, start, end, self.position, self.rosa, self.warmup_step)["logits"].swapaxes(0, 1)
        if not np.isfinite(logits).all():
            raise UserError(
                f"a logit at position {self.position} is not finite: the state or the weights are broken",
                where="generation",
                outcome="nothing was changed on disk",
            )
        self._note(end - start)
        if self.writes:
            self._remember()
        self.position += end - start
        return logits

    def _note(self, count: int) -> None:
        """Telemetry of each token: manager depth and worker steps [rows]."""
        import numpy as np

        steps, depth = self.machine.read("worker_steps", count), self.machine.read("depth", count)
        for t in range(count):
            plans = (self.position + t) % self.cfg.h_stride == 0
            self.telemetry.append({"depth": depth[t] if plans else np.ones(self.rows, np.float32), "worker_steps": steps[t]})

    def _remember(self) -> None:
        """Writes the value of the newest token to the slots that it read."""
        out, index = self.machine.read("out", 1)[0], self.machine.read("index", 1)[0]
        values = writer_values(self.writer, out)
        spread = -values[:, None, :].repeat(index.shape[1], 1)
        if self.fast.shared:
            index, spread = index.reshape(-1), spread.reshape(-1, spread.shape[-1])
        self.fast.write(self.cfg, index, spread, self.cfg.ltm_lr, 1, float(self.position), USER)
        self.set_memory(self.fast)

    def state(self) -> dict[str, np.ndarray]:
        """The carried state, parts by name."""
        return self.machine.read_state()

    def restore(self, parts: Mapping[str, np.ndarray], rosa, position: int) -> None:
        """Goes on from a state that `state` gave, its automata and its position; what lies beyond a clamp is limited."""
        self.machine.write_state(clamped(self.cfg, parts))
        self.rosa, self.position = rosa, position

    def close(self) -> None:
        """Gives programs and memory back."""
        self.machine.close()
        for arena in list(self.memory.store.layout.arenas):
            self.memory.store.free(arena)


def np_array(value) -> np.ndarray:
    import numpy as np

    return np.asarray(value, np.float32)


def check_tokens(ids: np.ndarray, vocabulary: int) -> None:
    """Refuses ids outside the vocabulary."""
    bad = ids[(ids < 0) | (ids >= vocabulary)]
    if bad.size:
        raise UserError(f"token {int(bad[0])} is outside the vocabulary of {vocabulary}", where="tokens", outcome="nothing was generated")
