"""Log-likelihoods of given tokens: of choices behind a context, and of long texts in strided windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.graph import functions as F
from hierarchos.graph.op import tracing
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Graph
from hierarchos.models.family import Model
from hierarchos.nn.batch import input_batch, logits_of

if TYPE_CHECKING:
    import numpy as np

STEP = 32  # lengths and numbers of scored tokens are rounded up to this, so that programs are shared
MOST_PICKED = 256  # positions whose logits are there at once


@dataclass(frozen=True)
class Scored:
    """Sum of log-probabilities (natural logarithm) of a continuation, its number of tokens, and whether greedy search would write it."""

    log_likelihood: float
    tokens: int
    greedy: bool


def score_graph(model: Model, length: int, picked: int) -> Graph:
    """Inputs ids, positions, segments i32 [1, length], pick i32 [picked]; output logits [picked, V] at these positions."""
    with tracing(Graph()) as graph:
        output = model.forward(model.weights(), input_batch(1, length))
        hidden = F.reshape(output.hidden, (length, output.hidden.shape[-1]))
        graph.outputs["logits"] = logits_of(output, F.gather_rows(hidden, F.input("pick", (picked,), "i32")))
    return graph


class Scorer:
    """Scores with the parameters in a store. `compile`: (graph, store) -> something with run(feeds)."""

    def __init__(self, model: Model, store: StateStore, compile: Callable):
        self.model, self.store, self.compile, self.programs = model, store, compile, {}

    def score(self, context: Sequence[int], continuation: Sequence[int]) -> Scored:
        """The continuation's tokens after the context. A context that is too long loses its beginning; it needs one token."""
        import numpy as np

        limit = self.model.config.max_positions
        if not context or not continuation:
            raise UserError("a choice needs a token before it and one of its own", hint="the context is empty and the tokenizer has no BOS")
        if len(continuation) >= limit:
            raise UserError(f"a choice of {len(continuation)} tokens; the model's context has {limit}")
        ids = [*context, *continuation][-(limit + 1) :]
        first = len(ids) - len(continuation) - 1
        logits = self.logits(ids[:-1], range(first, len(ids) - 1))
        targets = np.array(ids[first + 1 :])
        logs = log_softmax(logits)[np.arange(len(targets)), targets]
        return Scored(float(logs.sum()), len(targets), bool((logits.argmax(1) == targets).all()))

    def logits(self, ids: Sequence[int], places: Sequence[int]) -> np.ndarray:
        """Logits [len(places), V] that follow the tokens at these places."""
        import numpy as np

        places, length, found = list(places), -(-len(ids) // STEP) * STEP, []
        feeds = {
            "ids": padded(ids, length),
            "segments": padded([1] * len(ids), length),
            "positions": np.minimum(np.arange(length, dtype=np.int32), self.model.config.max_positions - 1)[None],
        }
        for start in range(0, len(places), MOST_PICKED):
            part = places[start : start + MOST_PICKED]
            picked = -(-len(part) // STEP) * STEP
            found.append(self._program(length, picked).run(feeds | {"pick": padded(part, picked)[0]})["logits"][: len(part)])
        return np.concatenate(found)

    def perplexity(self, ids: Sequence[int], window: int, stride: int) -> tuple[float, int]:
        """(mean negative log-likelihood, number of scored tokens) of a long text: each token but the first is scored once, in a window
        that moves by `stride`, so that it sees window - stride tokens or more where there are as many."""
        total, count = 0.0, 0
        for begin, end, scored in windows(len(ids), window, stride):
            found = self.score(ids[begin : end - scored], ids[end - scored : end])
            total, count = total - found.log_likelihood, count + scored
        return total / max(count, 1), count

    def _program(self, length: int, picked: int):
        if (length, picked) not in self.programs:
            self.programs[length, picked] = self.compile(score_graph(self.model, length, picked), self.store)
        return self.programs[length, picked]

    def close(self) -> None:
        for program in self.programs.values():
            program.close()
        self.programs.clear()


def windows(length: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """(begin, end, how many tokens at its end are scored) of the windows over a text; the first token of a text has nothing before it."""
    before = 1
    for begin in range(0, length, stride):
        end = min(begin + window, length)
        if end > before:
            yield begin, end, end - before
        before = end
        if end == length:
            return


def padded(values: Sequence[int], length: int) -> np.ndarray:
    import numpy as np

    result = np.zeros((1, length), np.int32)
    result[0, : len(values)] = values
    return result


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """In double precision."""
    import numpy as np

    shifted = logits.astype(np.float64) - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
