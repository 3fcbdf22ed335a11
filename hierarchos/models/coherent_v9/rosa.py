"""ROSA: a suffix automaton that predicts, from the tokens alone, what followed the longest suffix seen before.

It runs on the host. Marking where suffixes ended last follows all suffix links: a few on text, so that its time is linear; as many as
tokens on a stream of one token. Where more than a few were followed for each token, the marks move into `suffix_ends`, and each token takes
logarithmic time.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hierarchos.models.coherent_v9.suffix_ends import PathMarks

NONE = -1
FEW, FIRST = 32, 4096                      # links that are followed for each token, and for all, before marks are kept along paths


@dataclass
class Automaton:
    """One row's history. cap: tokens after which it starts afresh (0: never).

    Per node: `edges` (token -> node), `link` (suffix link), `length` of the longest substring, `last_end` (the last position where
    it ended before now; stale once `paths` is there: `end_of`)."""

    cap: int = 0
    tokens: list[int] = field(default_factory=list)
    edges: list[dict[int, int]] = field(default_factory=lambda: [{}])
    link: list[int] = field(default_factory=lambda: [-1])
    length: list[int] = field(default_factory=lambda: [0])
    last_end: list[int] = field(default_factory=lambda: [-1])
    last: int = 0
    followed: int = 0                       # links that marking followed
    paths: PathMarks | None = field(default=None, repr=False)       # holds the marks, in place of last_end

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

    def _new(self, length: int, edges: dict[int, int], end: int = NONE) -> int:
        self.edges.append(edges)
        self.link.append(-1)
        self.length.append(length)
        self.last_end.append(end)
        if self.paths:
            self.paths.add(NONE, end)
        return len(self.link) - 1

    def _extend(self, token: int) -> int:
        """Blumer's construction: the node of the whole history."""
        whole, node = self._new(self.length[self.last] + 1, {}), self.last
        while node != -1 and token not in self.edges[node]:
            self.edges[node][token] = whole
            node = self.link[node]
        self.link[whole] = 0 if node == -1 else self._suffix(node, token)
        if self.paths:
            self.paths.up[whole] = self.link[whole]
        return whole

    def _suffix(self, node: int, token: int) -> int:
        """The node of the longest suffix that was there before, split off where it shares a node with longer ones."""
        target = self.edges[node][token]
        if self.length[node] + 1 == self.length[target]:
            return target
        clone = self._new(self.length[node] + 1, dict(self.edges[target]), self.end_of(target))
        self.link[clone] = self.link[target]
        while node != -1 and self.edges[node].get(token) == target:
            self.edges[node][token] = clone
            node = self.link[node]
        self.link[target] = clone
        if self.paths:
            self.paths.up[clone] = self.link[clone]
            self.paths.move(target, clone)
        return clone

    def _predict(self, node: int) -> int:
        while node != -1:
            if self.length[node] > 0 and (end := self.end_of(node)) >= 0:
                return self.tokens[end + 1]
            node = self.link[node]
        return NONE

    def end_of(self, node: int) -> int:
        """The last position where its substrings ended before now; NONE for nowhere."""
        return self.paths.value(node) if self.paths else self.last_end[node]

    def _mark(self, node: int, position: int) -> None:
        if self.paths:
            self.paths.mark(node, position)
            return
        while node != -1 and self.last_end[node] < position:
            self.last_end[node] = position
            node = self.link[node]
            self.followed += 1
        if self.followed > FIRST + FEW * len(self.tokens):
            self.paths = PathMarks(self.link, self.last_end)

    def to_json(self) -> dict:
        """Plain data for a state file."""
        nodes = [sorted(edges.items()) for edges in self.edges]
        return {"cap": self.cap, "tokens": list(self.tokens), "edges": nodes, "link": list(self.link), "length": list(self.length),
                "last_end": [self.end_of(node) for node in range(len(self.link))], "last": self.last}

    @classmethod
    def from_json(cls, data: dict) -> Automaton:
        edges = [{int(token): int(node) for token, node in pairs} for pairs in data["edges"]]
        return cls(data["cap"], list(data["tokens"]), edges, list(data["link"]), list(data["length"]), list(data["last_end"]), data["last"])
