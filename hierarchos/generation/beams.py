"""Beam search and beam sampling of one prompt, with the rules by which Transformers 5 scores, ends and keeps beams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.generation.policy import Policy
from hierarchos.generation.rules import Rule, apply
from hierarchos.kernels.choose import filtered
from hierarchos.kernels.random import philox_reference

if TYPE_CHECKING:
    import numpy as np

IMPOSSIBLE = -1e9


@dataclass(frozen=True)
class Beam:
    """New tokens and their summed log-probability; of finished beams divided by length ** length_penalty."""

    tokens: tuple[int, ...]
    score: float
    finished: bool = False


class BeamSearch:
    """`step(logits)` takes logits [beams, V] and gives (parent, token) of each running beam, or None at the end."""

    def __init__(
        self,
        policy: Policy,
        rules: Sequence[Rule],
        prompt: Sequence[int],
        most_new: int,
        ends: Callable[[Sequence[int]], str | None],
        row: int = 0,
    ):
        self.policy, self.rules, self.prompt, self.most_new, self.ends, self.row = policy, rules, list(prompt), most_new, ends, row
        self.beams = policy.num_beams
        self.running = [Beam((), 0.0 if i == 0 else IMPOSSIBLE) for i in range(self.beams)]
        self.kept = [Beam((), IMPOSSIBLE)] * self.beams
        self.improvable = True
        self.most = max(2, 1 + len(policy.eos_token_id)) * self.beams

    def step(self, logits: np.ndarray) -> list[tuple[int, int]] | None:
        """Extends the running beams by one token; (parent, token) of each new running beam, None where the search is over."""
        import numpy as np

        totals = np.stack([self._scores(row, beam) for row, beam in zip(logits, self.running, strict=True)])
        best = self._sampled(totals) if self.policy.do_sample else np.argsort(-totals.ravel(), kind="stable")[: self.most]
        parents, tokens = np.divmod(best, totals.shape[1])
        found = [Beam((*self.running[p].tokens, int(t)), float(totals[p, t])) for p, t in zip(parents, tokens, strict=True)]
        length = len(found[0].tokens)
        stops = [length >= self.most_new or self.ends(beam.tokens) is not None for beam in found]
        chosen = sorted(range(len(found)), key=lambda i: -(found[i].score + IMPOSSIBLE * stops[i]))[: self.beams]
        self._keep(found, stops, length)
        self.running = [Beam(found[i].tokens, found[i].score + IMPOSSIBLE * stops[i]) for i in chosen]
        self.improvable = self.improvable and self._may_improve(length)
        full = self.policy.early_stopping is True and all(beam.finished for beam in self.kept)
        if not self.improvable or full or all(stops):
            return None
        return [(int(parents[i]), int(tokens[i])) for i in chosen]

    def _scores(self, logits: np.ndarray, beam: Beam) -> np.ndarray:
        """Log-probabilities after the rules, added to the beam's score."""
        import numpy as np

        shifted = logits.astype(np.float32) - logits.max()
        logs = shifted - np.float32(np.log(np.exp(shifted.astype(np.float64)).sum()))
        scores = apply(self.rules, logs, [*self.prompt, *beam.tokens], len(self.prompt))
        if self.policy.do_sample:
            scores = filtered(scores, self.policy.drawing, keep=1 + max(1, len(self.policy.eos_token_id)))
        return scores + np.float32(beam.score)

    def _sampled(self, totals: np.ndarray) -> np.ndarray:
        """So many different continuations drawn by their probability, likeliest first: the best of log p - log E, as in `choose`."""
        import numpy as np

        flat, position = totals.ravel().astype(np.float64), len(self.prompt) + len(self.running[0].tokens)
        index = np.arange(len(flat), dtype=np.uint32)
        counter = [index >> np.uint32(2), np.full_like(index, self.row), np.full_like(index, position), np.ones_like(index)]
        words = np.choose(
            index & np.uint32(3), philox_reference(counter, (self.policy.seed & 0xFFFFFFFF, (self.policy.seed >> 32) & 0xFFFFFFFF))
        )
        race = flat - np.log(-np.log1p(-(words + 0.5) * 2.0**-32))
        drawn = np.argsort(-race, kind="stable")[: self.most]
        return drawn[np.argsort(-flat[drawn], kind="stable")]

    def _keep(self, found: list[Beam], stops: list[bool], length: int) -> None:
        """Finished beams among the best `beams` continuations compete with those kept before."""
        full = self.policy.early_stopping is True and all(beam.finished for beam in self.kept)
        closed = IMPOSSIBLE * (full + (not self.improvable))
        merged = list(self.kept)
        for place, (beam, stop) in enumerate(zip(found, stops, strict=True)):
            done = stop and place < self.beams
            merged.append(Beam(beam.tokens, beam.score / length**self.policy.length_penalty + closed + IMPOSSIBLE * (not done), done))
        self.kept = sorted(merged, key=lambda beam: -beam.score)[: self.beams]

    def _may_improve(self, length: int) -> bool:
        """Whether the best running beam could still pass the worst kept one."""
        hopeful = self.policy.early_stopping == "never" and self.policy.length_penalty > 0
        best = self.running[0].score / (self.most_new if hopeful else length) ** self.policy.length_penalty
        worst = min(beam.score for beam in self.kept)
        return any(best > (worst if beam.finished else IMPOSSIBLE) for beam in self.kept)

    def results(self) -> list[Beam]:
        """The best beams, as many as are asked for."""
        return self.kept[: self.policy.num_return_sequences]
