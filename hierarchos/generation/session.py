"""One batch of rows being extended: programs, slots and what each row holds so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from hierarchos.generation.cache import (
    HISTORY,
    IDS,
    OFFSET,
    SEEN,
    SETTINGS,
    cache_specs,
    decode_graph,
    reorder_graph,
    step_graph,
    step_specs,
)
from hierarchos.graph.store import StateStore
from hierarchos.kernels.choose import Drawing
from hierarchos.models.family import Model

if TYPE_CHECKING:
    import numpy as np

CHUNKS = (1, 16, 128)  # lengths for which a program is compiled; longer prompts run in pieces of the last
ARENA, STEP_ARENA = "cache", "step"
AHEAD = 8  # steps submitted before the first one's token is read


class Session:
    """Rows of at most `capacity` tokens over the parameters of a store. `compile`: (graph, store) -> something with run(feeds).

    hidden: `extend` leaves what the head reads in `seen_hidden`, a list of [rows, tokens, D] of its pieces."""

    def __init__(self, model: Model, store: StateStore, rows: int, capacity: int, compile: Callable, hidden: bool = False):
        self.model, self.store, self.rows, self.capacity, self.hidden = model, store, rows, capacity, hidden
        self.compile, self.programs = compile, {}
        store.allocate(ARENA, cache_specs(decode_graph(model, rows, 1, capacity)))
        try:
            store.allocate(STEP_ARENA, step_specs(model, rows))
        except Exception:
            store.free(ARENA)
            raise
        self.reset()

    def reset(self) -> None:
        """Forgets every token."""
        self.filled = [0] * self.rows

    def close(self) -> None:
        """Gives the memory of programs and cache back."""
        for program in self.programs.values():
            program.close()
        self.programs.clear()
        for arena in (ARENA, STEP_ARENA):
            self.store.free(arena)

    def extend(self, tokens: Sequence[Sequence[int]]) -> np.ndarray:
        """Appends tokens to each row (none to some) and returns the logits [rows, V] after the last of each row's.

        A row that got none has the logits of a padding token, which mean nothing."""
        import numpy as np

        result, done, longest = None, 0, max(map(len, tokens))
        self.seen_hidden = []
        while done < longest:
            length = chunk_for(longest - done)
            pieces = [list(row[done : done + length]) for row in tokens]
            logits = self._run(pieces, length)
            result = logits if result is None else np.where(np.array([len(p) > 0 for p in pieces])[:, None], logits, result)
            done += length
        return result

    def _run(self, pieces: list[list[int]], length: int) -> np.ndarray:
        """One program run: pieces shorter than `length` are padded on the right; later tokens overwrite those slots."""
        import numpy as np

        ids, offset = np.zeros((self.rows, length), np.int32), np.array(self.filled, np.int32)
        for row, piece in enumerate(pieces):
            ids[row, : len(piece)] = piece
        count = np.array([len(piece) for piece in pieces], np.int32)
        self.filled = [filled + len(piece) for filled, piece in zip(self.filled, pieces, strict=True)]
        found = self._program(length).run({"ids": ids, "offset": offset, "count": count})
        if self.hidden:
            self.seen_hidden.append(found["hidden"][:, : max(map(len, pieces))])
        return found["logits"]

    def reorder(self, parents: Sequence[int]) -> None:
        """Row i becomes a copy of what row parents[i] is."""
        import numpy as np

        if list(parents) != list(range(self.rows)):
            if "reorder" not in self.programs:
                specs = cache_specs(decode_graph(self.model, self.rows, 1, self.capacity))
                self.programs["reorder"] = self.compile(reorder_graph(specs), self.store)
            self.programs["reorder"].run({"parents": np.array(parents, np.int32)})
        self.filled = [self.filled[parent] for parent in parents]

    def steps(self, newest: Sequence[int], count: int, drawing: Drawing, seen: np.ndarray | None = None) -> Iterator[list[int]]:
        """The next `count` tokens of each row [rows], one list a step, after `newest` (not in the cache yet) of each row.

        Each step is one replay without input; up to AHEAD of them are submitted before the first token is read. When the caller stops
        early, what ran ahead is forgotten: a slot beyond `filled` is never seen and will be overwritten. -1: logits that are no numbers.
        seen: u32 [rows, V], tokens that the repetition penalty acts on."""
        import numpy as np

        store, program = self.store, self._step_program()
        store.write(SETTINGS, drawing.words())
        store.write(IDS, np.array(newest, np.int32)[:, None])
        store.write(OFFSET, np.array(self.filled, np.int32))
        if drawing.repetition_penalty != 1:
            store.write(SEEN, seen)
        start, flight, submitted = list(self.filled), [], 0
        for done in range(count):
            while submitted < count and len(flight) < AHEAD:
                flight.append(program.submit_again())
                submitted += 1
            tokens = program.read(flight.pop(0), "tokens")
            self.filled = [filled + 1 for filled in self.filled]
            yield [int(tokens[row, (start[row] + done) % HISTORY]) for row in range(self.rows)]

    def _program(self, length: int):
        if length not in self.programs:
            self.programs[length] = self.compile(decode_graph(self.model, self.rows, length, self.capacity, self.hidden), self.store)
        return self.programs[length]

    def _step_program(self):
        if "step" not in self.programs:
            self.programs["step"] = self.compile(step_graph(self.model, self.rows, self.capacity), self.store)
        return self.programs["step"]


def chunk_for(tokens: int) -> int:
    """Length of the program that runs next where so many tokens are left."""
    return next((chunk for chunk in CHUNKS if chunk >= tokens), CHUNKS[-1])


def chunks_for(tokens: int) -> list[int]:
    """Lengths of all programs that prefill so many tokens, largest first."""
    whole, rest = divmod(tokens, CHUNKS[-1])
    return sorted(({CHUNKS[-1]} if whole else set()) | ({chunk_for(rest)} if rest else set()), reverse=True)
