"""ROSA's predictions for a batch, made in a thread of their own while the device works on what came before."""
from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.rosa import NONE, Automaton

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.models.coherent_v9.feeds import Rows

_threads: list[ThreadPoolExecutor] = []


def thread() -> ThreadPoolExecutor:
    """The one thread of all automata; its work is done in the order in which it was given."""
    if not _threads:
        _threads.append(ThreadPoolExecutor(1, "rosa"))
    return _threads[0]


class Foretold:
    """Predictions of rows that are known from the first column to the last, chunk by chunk of `size` columns.

    automata: their history so far, one a row, which goes on; padding is then not fed. None: fresh ones."""

    def __init__(self, cfg: Config, rows: Rows, size: int, automata: Sequence[Automaton] | None = None):
        self.rows, self.size, self.padding = rows, size, automata is None
        self.automata = list(automata) if automata is not None else [Automaton(cfg.rosa_cap) for _ in rows.ids]
        self.chunks: dict[int, Future] = {start: thread().submit(self._predict, start) for start in range(0, rows.ids.shape[1], size)}

    def _predict(self, start: int) -> np.ndarray:
        return predictions(self.automata, self.rows, start, start + self.size, self.padding)

    def columns(self, start: int, end: int) -> np.ndarray:
        """i32 [B, end - start]; `start` is where a chunk begins. Waits where the thread is not there yet."""
        return self.chunks[start].result()[:, :end - start]


def predictions(automata: Sequence[Automaton], rows: Rows, start: int, end: int, padding: bool = True) -> np.ndarray:
    """i32 [B, end - start]: what follows each token, NONE where nothing is known.

    padding: it is fed as if it were tokens, as the reference does in training; it lies on the right, so no token sees it."""
    import numpy as np

    ids = rows.ids[:, start:end]
    told = np.full(ids.shape, NONE, np.int32)
    for row, (automaton, tokens, mask) in enumerate(zip(automata, ids, rows.mask[:, start:end], strict=True)):
        count = len(tokens) if padding else int(mask.sum())
        told[row, :count] = automaton.feed_all(tokens[:count].tolist())
    return told
