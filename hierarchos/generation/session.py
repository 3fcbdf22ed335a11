"""One batch of rows being extended: programs, slots and what each row holds so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hierarchos.generation.cache import SEGMENTS, cache_specs, decode_graph
from hierarchos.graph.store import StateStore
from hierarchos.models.family import Model

if TYPE_CHECKING:
    import numpy as np

CHUNKS = (1, 16, 128)      # lengths for which a program is compiled; longer prompts run in pieces of the last
ARENA = "cache"


class Session:
    """Rows of at most `capacity` tokens over the parameters of a store. `compile`: (graph, store) -> something with run(feeds)."""

    def __init__(self, model: Model, store: StateStore, rows: int, capacity: int, compile: Callable):
        self.model, self.store, self.rows, self.capacity = model, store, rows, capacity
        self.compile, self.programs = compile, {}
        store.allocate(ARENA, cache_specs(decode_graph(model, rows, 1, capacity)))
        self.reset()

    def reset(self) -> None:
        """Forgets every token."""
        self.store.zero(SEGMENTS)
        self.filled = [0] * self.rows

    def close(self) -> None:
        """Gives the memory of programs and cache back."""
        for program in self.programs.values():
            program.close()
        self.programs.clear()
        self.store.free(ARENA)

    def extend(self, tokens: Sequence[Sequence[int]]) -> np.ndarray:
        """Appends tokens to each row (none to some) and returns the logits [rows, V] after the last of each row's.

        A row that got none has the logits of a padding token, which mean nothing."""
        import numpy as np

        result, done, longest = None, 0, max(map(len, tokens))
        while done < longest:
            length = chunk_for(longest - done)
            pieces = [list(row[done:done + length]) for row in tokens]
            logits = self._run(pieces, length)
            result = logits if result is None else np.where(np.array([len(p) > 0 for p in pieces])[:, None], logits, result)
            done += length
        return result

    def _run(self, pieces: list[list[int]], length: int) -> np.ndarray:
        """One program run: pieces shorter than `length` are padded on the right with segment 0; later tokens overwrite those slots."""
        import numpy as np

        ids, segments = np.zeros((self.rows, length), np.int32), np.zeros((self.rows, length), np.int32)
        offset = np.array(self.filled, np.int32)
        for row, piece in enumerate(pieces):
            ids[row, :len(piece)], segments[row, :len(piece)] = piece, 1
        positions = np.minimum(offset[:, None] + np.arange(length, dtype=np.int32), self.capacity - 1).astype(np.int32)
        last = np.array([row * length + max(len(piece), 1) - 1 for row, piece in enumerate(pieces)], np.int32)
        feeds = {"ids": ids, "positions": positions, "segments": segments, "offset": offset, "last": last}
        self.filled = [filled + len(piece) for filled, piece in zip(self.filled, pieces, strict=True)]
        return self._program(length).run(feeds)["logits"]

    def _program(self, length: int):
        if length not in self.programs:
            self.programs[length] = self.compile(decode_graph(self.model, self.rows, length, self.capacity), self.store)
        return self.programs[length]


def chunk_for(tokens: int) -> int:
    """Length of the program that runs next where so many tokens are left."""
    return next((chunk for chunk in CHUNKS if chunk >= tokens), CHUNKS[-1])


def chunks_for(tokens: int) -> list[int]:
    """Lengths of all programs that prefill so many tokens, largest first."""
    whole, rest = divmod(tokens, CHUNKS[-1])
    return sorted(({CHUNKS[-1]} if whole else set()) | ({chunk_for(rest)} if rest else set()), reverse=True)
