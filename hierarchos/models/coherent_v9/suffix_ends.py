"""Where suffixes ended last, kept along paths of suffix links: a whole path is marked in logarithmic time (Sleator and Tarjan 1983).

Nodes of a path that was walked last lie in one splay tree, ordered from the root down; marking it marks that tree. Times are amortized.
"""
from __future__ import annotations

from collections.abc import Sequence

NONE = -1


class PathMarks:
    """A value for each node of a rooted forest, given by parents `links` (NONE: a root) and first `values` (from 0)."""

    def __init__(self, links: Sequence[int], values: Sequence[int]):
        self.up, self.values = list(links), list(values)            # up: within the splay tree, or from its top to the path above
        self.left, self.right, self.owed = ([NONE] * len(self.up) for _ in range(3))    # owed: a value that both children still lack

    def add(self, link: int, value: int) -> None:
        """A new node without children."""
        self.up.append(link)
        self.values.append(value)
        for array in (self.left, self.right, self.owed):
            array.append(NONE)

    def move(self, node: int, link: int) -> None:
        """Gives a node, with all below it, another parent."""
        self._walk(node)
        above = self.left[node]
        self.left[node] = NONE
        if above != NONE:
            self.up[above] = NONE
        self.up[node] = link

    def mark(self, node: int, value: int) -> None:
        """Sets the node and everything above it."""
        self._walk(node)
        self.values[node] = self.owed[node] = value

    def value(self, node: int) -> int:
        self._splay(node)
        return self.values[node]

    def _walk(self, node: int) -> None:
        """Makes the path from the root to `node` one splay tree with `node` on top and nothing below it."""
        below, at = NONE, node
        while at != NONE:
            self._splay(at)
            self.right[at] = below
            below, at = at, self.up[at]
        self._splay(node)

    def _is_top(self, node: int) -> bool:
        above = self.up[node]
        return above == NONE or (self.left[above] != node and self.right[above] != node)

    def _pay(self, node: int) -> None:
        """Hands an owed value down."""
        value = self.owed[node]
        if value != NONE:
            for child in (self.left[node], self.right[node]):
                if child != NONE:
                    self.values[child] = self.owed[child] = value
            self.owed[node] = NONE

    def _splay(self, node: int) -> None:
        """Brings a node to the top of its splay tree."""
        path = [node]
        while not self._is_top(path[-1]):
            path.append(self.up[path[-1]])
        for at in reversed(path):
            self._pay(at)
        while not self._is_top(node):
            above = self.up[node]
            if not self._is_top(above):
                straight = (self.left[above] == node) == (self.left[self.up[above]] == above)
                self._rotate(above if straight else node)
            self._rotate(node)

    def _rotate(self, node: int) -> None:
        """Exchanges a node with the one above it."""
        above, up = self.up[node], self.up[self.up[node]]
        top = self._is_top(above)
        near, far = (self.left, self.right) if self.left[above] == node else (self.right, self.left)
        child = far[node]
        near[above], far[node] = child, above
        if child != NONE:
            self.up[child] = above
        self.up[above], self.up[node] = node, up
        if not top:
            side = self.left if self.left[up] == above else self.right
            side[up] = node
