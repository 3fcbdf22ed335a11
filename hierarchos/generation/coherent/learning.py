"""What a conversation writes to the fast memory: at a command, or after each turn by itself where that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hierarchos.models.coherent_v9.feeds import IGNORED, Rows
from hierarchos.models.coherent_v9.memory import CORRECTION, USER

if TYPE_CHECKING:
    from hierarchos.generation.coherent.feedback import Feedback, Outcome
    from hierarchos.generation.coherent.overlay import Overlay
    from hierarchos.generation.coherent.session import CoherentSession

OFF, VALIDATED, PROMPT, BOTH = POLICIES = ("off", "validated", "prompt", "prompt+response")
PASSIVE_RATE = 5e-6
LEAST_TOKENS = 8  # of an answer that is learned by itself
MANY_TOKENS, LEAST_DISTINCT = 20, 0.35  # of so many tokens, this share must differ
LEAST_PHRASES = 0.75  # distinct share of its runs of three and of four tokens
SURPRISE = 1.0  # nats a token; an answer that is less likely is not learned by itself
FORBIDDEN = "nothing is written to the memory: coherent.ltm_writes=off"


@dataclass(eq=False)
class Learner:
    """policy: one of POLICIES; "validated" writes at commands only. teacher: makes what learning needs, at its first use.

    overlay: keeps what was written for later sessions."""

    session: CoherentSession
    teacher: Callable[[], Feedback]
    policy: str = VALIDATED
    overlay: Overlay | None = None
    passive_outcomes: list[Outcome] = field(default_factory=list)
    _feedback: Feedback | None = None

    def teach(self, asked: Sequence[int], target: Sequence[int], *, reject: bool = False, source: int = USER) -> str:
        """Writes that `target` is, or is not, what follows `asked`; tells what came of it."""
        if self.policy == OFF:
            return FORBIDDEN
        outcome = self.write(pair(asked, target), reject=reject, source=source)
        if outcome.memory is None:
            return f"not learned: no write of {outcome.attempts} that were tried helps and is small enough"
        return f"{'rejected' if reject else 'learned'}: objective {outcome.before:.6f} to {outcome.after:.6f} nats a token"

    def correct(self, asked: Sequence[int], said: Sequence[int], target: Sequence[int]) -> str:
        """Rejects what was said, then learns what should have been."""
        if self.policy == OFF:
            return FORBIDDEN
        return f"{self.teach(asked, said, reject=True)}; {self.teach(asked, target, source=CORRECTION)}"

    def after_turn(self, asked: Sequence[int], answer: Sequence[int]) -> None:
        """Passive learning, where the policy has it: from the prompt, then from an answer that is worth it."""
        self.passive_outcomes = []
        if self.policy in (PROMPT, BOTH) and len(asked) > 1:
            self.passive_outcomes.append(self.write(pair([], asked), rate=PASSIVE_RATE))
        if self.policy == BOTH and worth_learning(answer):
            self.passive_outcomes.append(self.write(pair(asked, answer), rate=PASSIVE_RATE, most=SURPRISE))

    def write(self, rows: Rows, **how) -> Outcome:
        """Tries a write, and keeps it where it is accepted."""
        self._feedback = self._feedback or self.teacher()
        before = self.session.fast
        outcome = self._feedback.learn(rows, before, clock=float(self.session.position), **how)
        if outcome.memory is not None:
            self.session.set_memory(outcome.memory)
            if self.overlay is not None:
                self.overlay.add(outcome.memory.values - before.values)
        return outcome


def pair(asked: Sequence[int], target: Sequence[int]) -> Rows:
    """One row whose labels are the target's tokens."""
    import numpy as np

    ids = np.array([[*asked, *target]])
    return Rows.of(ids, np.where(np.arange(ids.shape[1]) < len(asked), IGNORED, ids))


def worth_learning(tokens: Sequence[int]) -> bool:
    """Whether an answer is long enough and does not repeat itself."""
    if len(tokens) < LEAST_TOKENS:
        return False
    if len(tokens) >= MANY_TOKENS and distinct(tokens, 1) < LEAST_DISTINCT:
        return False
    return all(distinct(tokens, size) >= LEAST_PHRASES for size in (3, 4))


def distinct(tokens: Sequence[int], size: int) -> float:
    """Share of the runs of `size` tokens that differ from each other."""
    runs = [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]
    return len(set(runs)) / len(runs)
