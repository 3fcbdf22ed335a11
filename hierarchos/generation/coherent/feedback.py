"""Learning an answer, or rejecting one, by a write to the fast memory alone: tried on a copy, kept only where it helps and stays small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.coherent.machine import GRADIENTS, Machine, Memory
from hierarchos.errors import UserError
from hierarchos.models.coherent_v9 import feeds
from hierarchos.models.coherent_v9.chunk import FAST, Kind
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.feeds import Rows
from hierarchos.models.coherent_v9.memory import USER, FastMemory, prepared_gradients

if TYPE_CHECKING:
    import numpy as np

RATE, ATTEMPTS, CLIP = 1e-3, 4, 0.75
LARGEST_CHANGE, LARGEST_MEMORY, LARGEST_SLOT = 1.0, 64.0, 4.0  # norms
LONGEST = 1024  # tokens of a sequence that is learned from
NEAR = 1e-7  # of 0 and 1: where a probability is cut off


@dataclass(frozen=True, eq=False)
class Outcome:
    """memory: with the write, or None where none was accepted. before, after: the objective; attempts: how many were tried."""

    memory: FastMemory | None
    before: float
    after: float
    attempts: int


def tail(rows: Rows) -> Rows:
    """The last LONGEST tokens of a row."""
    return Rows(*(array[:, -LONGEST:] for array in (rows.ids, rows.labels, rows.mask, rows.weights)))


class Feedback:
    """Gradients of retrieved values over a prompt and its target; learned tensors are constants here."""

    def __init__(self, cfg: Config, values: Mapping[str, np.ndarray], device):
        plain = {"z_loss_weight": 0.0, "ltm_value_alignment_weight": 0.0, "detach_every_n_steps": None}
        self.cfg = Config({**cfg.values, **plain}, cfg.status)
        self.memory = Memory(self.cfg, device, training=True)
        self.memory.load(values)
        self.machine = Machine(self.memory, Kind(1), cfg.training_chunk_size)

    def learn(
        self,
        rows: Rows,
        fast: FastMemory,
        *,
        reject: bool = False,
        rate: float = RATE,
        clock: float = 0.0,
        source: int = USER,
        most: float | None = None,
    ) -> Outcome:
        """Tries up to ATTEMPTS writes, each with half the rate of the one before. rows: one row whose labels are the target, of which the
        last LONGEST tokens count. most: an objective above it is not learned from."""
        rows = tail(rows)
        before = self.objective(rows, fast, reject)
        if most is not None and before > most:
            return Outcome(None, before, before, 0)
        index, raw = self.gradients(rows, fast, reject)
        ready = prepared_gradients(raw, CLIP)
        for attempt in range(ATTEMPTS):
            tried = self.candidate(fast, index, ready, rate * 0.5**attempt, rows.length, clock, source)
            if (after := self.accepted(tried, fast, rows, before, reject)) is not None:
                return Outcome(tried, before, after, attempt + 1)
        return Outcome(None, before, before, ATTEMPTS)

    def candidate(self, fast: FastMemory, index, ready, rate: float, length: int, clock: float, source: int) -> FastMemory:
        """A copy with the write, made from no momentum, which is none afterwards too."""
        tried = fast.copy()
        tried.momentum[...] = 0
        tried.write(self.cfg, index, ready, rate, length, clock + length, source)
        tried.momentum[...] = 0
        return tried

    def accepted(self, tried: FastMemory, fast: FastMemory, rows: Rows, before: float, reject: bool) -> float | None:
        """The objective with the write, where it is acceptable."""
        import numpy as np

        change, slots = float(np.linalg.norm(tried.values - fast.values)), np.linalg.norm(tried.values, axis=-1)
        small = 0 < change <= LARGEST_CHANGE and np.linalg.norm(tried.values) <= LARGEST_MEMORY and slots.max() <= LARGEST_SLOT
        if not small or not np.isfinite(tried.values).all():
            return None
        after = self.objective(rows, tried, reject)
        return after if after <= before + max(1e-7, 1e-6 * abs(before)) else None

    def objective(self, rows: Rows, fast: FastMemory, reject: bool) -> float:
        """Mean over the target of -ln p, or of -ln(1 - p)."""
        import numpy as np

        p = np.clip(self.probabilities(rows, fast)[0], NEAR, 1 - NEAR) if reject else self.probabilities(rows, fast)[0]
        return float(-np.log(1 - p if reject else p).mean())

    def probabilities(self, rows: Rows, fast: FastMemory) -> tuple[np.ndarray, np.ndarray]:
        """(probability of each target token, its column)."""
        import numpy as np

        logits = np.concatenate([part[0] for part in self._run("logits", rows, fast)]).astype(np.float64)
        places = np.nonzero(rows.labels[0, 1:] != feeds.IGNORED)[0]
        if not len(places):
            raise UserError("there is no target to learn from", where="labels", outcome="nothing was written to the memory")
        z = logits[places] - logits[places].max(-1, keepdims=True)
        return np.exp(z[np.arange(len(places)), rows.labels[0, places + 1]]) / np.exp(z).sum(-1), places + 1

    def gradients(self, rows: Rows, fast: FastMemory, reject: bool) -> tuple[np.ndarray, np.ndarray]:
        """(index, gradient) of what was retrieved [1,T,K] and [1,T,K,V]."""
        import numpy as np

        p, columns = self.probabilities(rows, fast)
        weights = np.zeros(rows.labels.shape, np.float32)
        inside = (p > NEAR) & (p < 1 - NEAR)
        weights[0, columns] = np.where(inside, p / (1 - p), 0.0) if reject else 1.0  # d -ln(1 - p) is -p / (1 - p) times d -ln p
        weighted = Rows(rows.ids, rows.labels, rows.mask, weights)
        self.memory.store.zero(GRADIENTS)
        parts = self._run("step", weighted, fast, (-1.0 if reject else 1.0) / len(p))
        return tuple(np.concatenate(arrays, 1) for arrays in zip(*parts, strict=True))

    def _run(self, what: str, rows: Rows, fast: FastMemory, scale: float = 1.0) -> list:
        """Chunk by chunk from zero state: logits [1,T,V], or (index, gradient) of each chunk."""
        self.machine.reset()
        self.memory.store.write(self.machine.own(FAST), fast.values)
        rosa, found, size = feeds.automata(self.cfg, 1) if self.cfg.use_rosa else None, [], self.cfg.training_chunk_size
        for start in range(0, rows.length, size):
            end = min(start + size, rows.length)
            mass = float(rows.weights[0, start + 1 : end + 1][rows.labels[0, start + 1 : end + 1] != feeds.IGNORED].sum())
            results = self.machine.run(what, rows, start, end, start, rosa, 0.0, (scale * mass, 0.0, 0.0))
            if what == "logits":
                found.append(results["logits"].swapaxes(0, 1))
            else:
                found.append(tuple(self.machine.read(name, end - start).swapaxes(0, 1) for name in ("index", "d.value")))
        return found

    def close(self) -> None:
        self.machine.close()
