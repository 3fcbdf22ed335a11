"""The next token of each row from its logits, on the device: launch and NumPy twin. The order of the filters is that of Transformers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hierarchos.kernels.launch import U32, In, Launch, Lowering, Operand, Out, Profile, Work
from hierarchos.kernels.random import philox_reference

LOCAL, SMALL_LOCAL = 1024, 64  # few would pass Mesa 22.3's 65535 loop iterations at 256k tokens; many cost more than they do at a few
SMALL = 4096  # tokens of a small vocabulary
WORDS = 16  # of the settings


@dataclass(frozen=True)
class Drawing:
    """How a token is chosen: greedy without `sample`, else from what the filters keep. 0 switches a filter off; a penalty of 1 likewise."""

    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 0.0
    min_p: float = 0.0
    typical_p: float = 0.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def words(self) -> np.ndarray:
        """u32 [WORDS] as the kernel reads them."""
        floats = [self.top_p, self.min_p, self.typical_p, self.epsilon_cutoff, self.eta_cutoff, self.repetition_penalty]
        result = np.zeros(WORDS, np.uint32)
        result[0], result[2], result[1] = self.sample, self.top_k, np.float32(self.temperature).view(np.uint32)
        result[3:9] = np.array(floats, np.float32).view(np.uint32)
        result[9], result[10] = self.seed & 0xFFFFFFFF, (self.seed >> 32) & 0xFFFFFFFF
        return result

    @classmethod
    def from_words(cls, words: np.ndarray) -> Drawing:
        """What `words` wrote."""
        floats = np.asarray(words, np.uint32)[1:9].view(np.float32).tolist()
        return cls(bool(words[0]), floats[0], int(words[2]), *floats[2:], seed=int(words[9]) | int(words[10]) << 32)


def penalised(logits: np.ndarray, seen: np.ndarray, penalty: float) -> np.ndarray:
    """Scores of tokens that were seen become less likely; `seen` bool [V]."""
    return np.where(seen, np.where(logits < 0, logits * penalty, logits / penalty), logits) if penalty != 1 else logits


def filtered(scores: np.ndarray, drawing: Drawing, keep: int = 1) -> np.ndarray:
    """The scores [V] divided by the temperature, -inf where a filter removes them; each filter sees what the one before kept.

    keep: tokens that every filter leaves (beam sampling needs more than one)."""
    s = scores / scores.dtype.type(drawing.temperature)
    if 0 < drawing.top_k < keep:
        drawing = replace(drawing, top_k=keep)
    for keeps in (_top_k, _top_p, _min_p, _typical, _epsilon, _eta):
        kept = keeps(s, drawing)
        if kept is not None:
            by = -s if keeps is not _typical else _deviation(s)
            kept[np.argsort(by, kind="stable")[:keep]] = True
            s = np.where(kept, s, -np.inf)
    return s


def probabilities(s: np.ndarray) -> np.ndarray:
    """Softmax of scores of which some are -inf, in double precision."""
    e = np.exp(s.astype(np.float64) - s.max())
    return e / e.sum()


def _top_k(s, drawing):
    return s >= np.partition(s, -drawing.top_k)[-drawing.top_k] if 0 < drawing.top_k < len(s) else None


def _top_p(s, drawing):
    """Removes the least likely ones that together have 1 - top_p at most."""
    if not drawing.top_p:
        return None
    order, kept = np.argsort(s, kind="stable"), np.zeros(len(s), bool)
    kept[order] = np.cumsum(probabilities(s)[order]) > 1 - drawing.top_p
    return kept


def _min_p(s, drawing):
    p = probabilities(s)
    return p >= drawing.min_p * p.max() if drawing.min_p else None


def _deviation(s):
    """How far the information of each token is from the entropy."""
    p = probabilities(s)
    with np.errstate(divide="ignore", invalid="ignore"):
        information = -np.log(p)
        return np.abs(information - np.nansum(np.where(p > 0, p * information, 0)))


def _typical(s, drawing):
    """Keeps those whose information is nearest to the entropy, until they have the wanted mass."""
    if not drawing.typical_p:
        return None
    deviation = _deviation(s)
    order = np.argsort(deviation, kind="stable")
    last = min(int((np.cumsum(probabilities(s)[order]) < drawing.typical_p).sum()), len(s) - 1)
    return deviation <= deviation[order[last]]


def _epsilon(s, drawing):
    return probabilities(s) >= drawing.epsilon_cutoff if drawing.epsilon_cutoff else None


def _eta(s, drawing):
    if not drawing.eta_cutoff:
        return None
    p = probabilities(s)
    entropy = -np.sum(p[p > 0] * np.log(p[p > 0]))
    return p >= min(drawing.eta_cutoff, np.sqrt(drawing.eta_cutoff) * np.exp(-entropy))


def drawn(s: np.ndarray, seed: int, row: int, position: int) -> int:
    """The token that wins the race E / p: of Philox word (token / 4, row, position) under the seed, E = -log(1 - u)."""
    index = np.arange(len(s), dtype=np.uint32)
    counter = [index >> np.uint32(2), np.full_like(index, row), np.full_like(index, position), np.zeros_like(index)]
    words = np.choose(index & np.uint32(3), philox_reference(counter, (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF)))
    u = (words.astype(np.float64) + 0.5) * 2.0**-32
    return int(np.argmax(s - np.log(-np.log1p(-u))))


def token_of(logits: np.ndarray, drawing: Drawing, row: int, position: int, seen: np.ndarray | None = None) -> int:
    """The token of one row [V]; -1 where the logits are not numbers."""
    if np.isnan(logits).any() or np.isposinf(logits).any():
        return -1
    scores = logits if seen is None else penalised(logits, seen, drawing.repetition_penalty)
    return drawn(filtered(scores, drawing), drawing.seed, row, position) if drawing.sample else int(np.argmax(scores))


def choose_reference(inputs: list[np.ndarray]) -> list[np.ndarray]:
    """seen, ids, offset, history after one token; see graph.ops.choose."""
    logits, settings, seen, ids, offset, history = inputs
    drawing, (seen, ids, offset, history) = Drawing.from_words(settings), (a.copy() for a in (seen, ids, offset, history))
    for row in range(len(logits)):
        position = int(offset[row])
        token = token_of(logits[row], drawing, row, position, seen[row] != 0)
        history[row, position % history.shape[1]], ids[row, 0], offset[row] = token, max(token, 0), position + 1
        if drawing.repetition_penalty != 1 and token >= 0:
            seen[row, token] = 1
    return [seen, ids, offset, history]


def lower_choose(inputs: list[Operand], profile: Profile) -> Lowering:
    """One workgroup a row."""
    rows, vocabulary = inputs[0].shape
    refs = (In(0), Work(0, 4 * rows * vocabulary), In(1), Out(0, read=True), Out(1, read=True), Out(2, read=True), Out(3, read=True))
    local = SMALL_LOCAL if vocabulary <= SMALL else LOCAL
    launch = Launch(
        "choose",
        (rows, 1, 1),
        (*refs, U32(vocabulary), U32(inputs[5].shape[1])),
        (local, local, local // 4),
        "choose",
        8.0 * rows * vocabulary,
        4.0 * rows * vocabulary,
    )
    return Lowering((launch,), 4 * rows * vocabulary)
