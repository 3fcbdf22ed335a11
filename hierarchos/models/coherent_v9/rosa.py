"""ROSA: a suffix automaton that predicts, from the tokens alone, what followed the longest suffix seen before.

It runs on the host, in linear time on text. Marking where suffixes ended last follows all suffix links: a few on text, as many as tokens
on a stream of one token, which the default bound of 512 tokens keeps small.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

NONE = -1


@dataclass
class Automaton:
    """One row's history. cap: tokens after which it starts afresh (0: never).

    Per node: `edges` (token -> node), `link` (suffix link), `length` of the longest substring, `last_end` (the last position where
    it ended before now)."""

    cap: int = 0
    tokens: list[int] = field(default_factory=list)
    edges: list[dict[int, int]] = field(default_factory=lambda: [{}])
    link: list[int] = field(default_factory=lambda: [-1])
    length: list[int] = field(default_factory=lambda: [0])
    last_end: list[int] = field(default_factory=lambda: [-1])
    last: int = 0

    def feed(self, token: int) -> int:
        """Appends a token and predicts the next one; NONE where no suffix occurred before."""
        if self.cap and len(self.tokens) >= self.cap:
            self.__init__(self.cap)
        position = len(self.tokens)
        self.tokens.append(token)
        self.last = self._extend(token)
        predicted = self._predict(self.last)
        self._mark(self.last, position)
        return predicted

    def feed_all(self, tokens: Iterable[int]) -> list[int]:
        return [self.feed(int(token)) for token in tokens]

    def _new(self, length: int, edges: dict[int, int], end: int) -> int:
        self.edges.append(edges)
        self.link.append(-1)
        self.length.append(length)
        self.last_end.append(end)
        return len(self.link) - 1

    def _extend(self, token: int) -> int:
        """Blumer's construction: the node of the whole history."""
        whole, node = self._new(self.length[self.last] + 1, {}, -1), self.last
        while node != -1 and token not in self.edges[node]:
            self.edges[node][token] = whole
            node = self.link[node]
        self.link[whole] = 0 if node == -1 else self._suffix(node, token)
        return whole

    def _suffix(self, node: int, token: int) -> int:
        """The node of the longest suffix that was there before, split off where it shares a node with longer ones."""
        target = self.edges[node][token]
        if self.length[node] + 1 == self.length[target]:
            return target
        clone = self._new(self.length[node] + 1, dict(self.edges[target]), self.last_end[target])
        self.link[clone] = self.link[target]
        while node != -1 and self.edges[node].get(token) == target:
            self.edges[node][token] = clone
            node = self.link[node]
        self.link[target] = clone
        return clone

    def _predict(self, node: int) -> int:
        while node != -1:
            if self.length[node] > 0 and self.last_end[node] >= 0:
                return self.tokens[self.last_end[node] + 1]
            node = self.link[node]
        return NONE

    def _mark(self, node: int, position: int) -> None:
        while node != -1 and self.last_end[node] < position:
            self.last_end[node] = position
            node = self.link[node]

    def to_json(self) -> dict:
        """Plain data for a state file."""
        nodes = [sorted(edges.items()) for edges in self.edges]
        return {"cap": self.cap, "tokens": list(self.tokens), "edges": nodes, "link": list(self.link), "length": list(self.length),
                "last_end": list(self.last_end), "last": self.last}

    @classmethod
    def from_json(cls, data: dict) -> Automaton:
        edges = [{int(token): int(node) for token, node in pairs} for pairs in data["edges"]]
        return cls(data["cap"], list(data["tokens"]), edges, list(data["link"]), list(data["length"]), list(data["last_end"]), data["last"])
