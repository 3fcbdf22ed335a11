"""When a text ends: end tokens, texts that end it, and time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hierarchos.generation.policy import Policy

TAIL = 32  # tokens behind which a stop string is looked for; one token or more makes one character


class Stop:
    """The end of one row: `ended(tokens)` gives "end", "stop string", "time" or None after each new token."""

    def __init__(self, policy: Policy, decode, clock=time.monotonic):
        self.ends, self.strings, self.decode = frozenset(policy.eos_token_id), policy.stop_strings, decode
        self.clock, self.deadline = clock, None if policy.max_time is None else clock() + policy.max_time

    def ended(self, tokens: Sequence[int]) -> str | None:
        """Why the text of these new tokens is over, if it is."""
        if tokens and tokens[-1] in self.ends:
            return "end"
        if self.strings and self.found(tokens):
            return "stop string"
        return "time" if self.deadline is not None and self.clock() >= self.deadline else None

    def found(self, tokens: Sequence[int]) -> bool:
        """Whether a stop string ends within the newest token, in the text of the new tokens."""
        longest = max(map(len, self.strings))
        tail = list(tokens[-(TAIL + longest) :])
        text, before = self.decode(tail), self.decode(tail[:-1])
        return any(text.find(stop) >= 0 and text.find(stop) + len(stop) > len(before) for stop in self.strings)
