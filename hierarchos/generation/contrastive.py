"""Contrastive search (Su et al., "A Contrastive Framework for Neural Text Generation", 2022) of one prompt.

    token = argmax over the top_k likeliest of  (1 - alpha) p(token) - alpha max over earlier tokens of cos(h(token), h(earlier))

h: what the head reads. The candidates are rows of one session: each step extends all of them by one token, and the winner's cache is
copied over the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hierarchos.generation.policy import Policy
from hierarchos.generation.rules import Rule, apply
from hierarchos.kernels.choose import probabilities

if TYPE_CHECKING:
    from hierarchos.generation.session import Session


def contrastive_tokens(session: Session, prompt: Sequence[int], policy: Policy, rules: Sequence[Rule], most_new: int) -> Iterator[int]:
    """New tokens of a prompt; the session has `top_k` rows and gives hidden states."""
    import numpy as np

    logits = session.extend([list(prompt)] * session.rows)[0]
    context = unit(np.concatenate([piece[0] for piece in session.seen_hidden]))
    tokens = list(prompt)
    for _ in range(most_new):
        p = probabilities(apply(rules, logits, tokens, len(prompt)))
        candidates = np.argsort(-p, kind="stable")[: session.rows]
        found = session.extend([[int(token)] for token in candidates])
        hidden = unit(session.seen_hidden[0][:, 0])
        degeneration = (hidden @ context.T).max(1)
        best = int(np.argmax((1 - policy.penalty_alpha) * p[candidates] - policy.penalty_alpha * degeneration))
        session.reorder([best] * session.rows)
        context, logits = np.concatenate([context, hidden[best : best + 1]]), found[best]
        tokens.append(int(candidates[best]))
        yield tokens[-1]


def unit(rows):
    """Rows of length one, in double precision."""
    import numpy as np

    rows = rows.astype(np.float64)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)
