"""Tokens to text while they come: whole characters only, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"  # what decoding gives for bytes that are no whole character yet
WHOLE = 8  # a character has four bytes at most: a longer tail of replacements is text that was damaged


class TextStream:
    """`push(token)` gives the text that is new and certain; `finish()` the rest. `text` is all of it so far."""

    def __init__(self, decode: Callable[[Sequence[int]], str], stops: Sequence[str] = ()):
        self.decode, self.stops = decode, tuple(stops)
        self.tokens: list[int] = []
        self.start = self.read = 0  # tokens before `start` are not decoded any more; those before `read` have been shown
        self.text, self.held = "", ""

    def push(self, token: int) -> str:
        """The text that this token makes certain."""
        self.tokens.append(int(token))
        before, after = self.decode(self.tokens[self.start : self.read]), self.decode(self.tokens[self.start :])
        if after.endswith(REPLACEMENT) and len(self.tokens) - self.read < WHOLE:
            return ""
        self.start, self.read = self.read, len(self.tokens)
        return self._certain(after[len(before) :])

    def finish(self) -> str:
        """What was held back, without a stop string that ended the text."""
        left = self.decode(self.tokens[self.start :])[len(self.decode(self.tokens[self.start : self.read])) :]
        rest = self.held + left
        for stop in self.stops:
            rest = rest.partition(stop)[0]
        self.held = ""
        self.text += rest
        return rest

    def _certain(self, new: str) -> str:
        """Holds back what may be the beginning of a stop string."""
        whole = self.held + new
        keep = max((size for stop in self.stops for size in range(1, len(whole) + 1) if whole[-size:] in _parts(stop, size)), default=0)
        found = [whole.find(stop) for stop in self.stops if stop in whole]
        cut = min(found) if found else len(whole) - keep
        self.held = whole[cut:]
        self.text += whole[:cut]
        return whole[:cut]


def _parts(stop: str, size: int) -> tuple[str, ...]:
    """Beginnings of a stop string of this size."""
    return (stop[:size],) if size <= len(stop) else ()
