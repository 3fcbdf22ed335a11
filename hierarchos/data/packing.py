"""Documents to rows of a fixed length. A row holds pieces of documents; attention stays inside each piece.

A document of n tokens has n-1 inputs: the last token is only a target. Documents longer than a row are cut into whole rows, which
predict their next token across the cut, and a rest. With layout "pack" documents and rests go, longest first, into the fullest row
that still has room (best fit decreasing); with "pad" each has a row of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hierarchos.data.token_file import TokenFile
from hierarchos.errors import UserError, nearest

LAYOUTS = ("pack", "pad")


@dataclass(frozen=True)
class RowPlan:
    """R rows made of P pieces: row r holds pieces first_piece[r] .. first_piece[r+1]-1, in this order.

    start: int64 [P] index into the token array; length: int64 [P] inputs. untrained_pieces: left out, for they teach nothing.
    """

    first_piece: np.ndarray
    start: np.ndarray
    length: np.ndarray
    untrained_pieces: int = 0

    def __len__(self) -> int:
        return len(self.first_piece) - 1

    @property
    def row_lengths(self) -> np.ndarray:
        """Used positions of each row, int64 [R]."""
        return np.add.reduceat(self.length, self.first_piece[:-1]) if len(self) else np.zeros(0, np.int64)


def plan_rows(file: TokenFile, sequence_length: int, layout: str = "pack") -> RowPlan:
    """Lays all documents into rows. The order of rows follows the order of the documents that begin them."""
    if layout not in LAYOUTS:
        raise UserError(f"data.layout={layout} is not a layout", nearest=nearest(layout, LAYOUTS), hint="layouts: pack, pad")
    start, length = _pieces(file, sequence_length)
    trained = np.concatenate([[0], np.cumsum(file.targets)])
    useful = trained[start + length + 1] - trained[start + 1] > 0
    untrained = int((~useful).sum())
    start, length = start[useful], length[useful]
    row = best_fit(length, sequence_length) if layout == "pack" else np.arange(len(length))
    order = np.argsort(row, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=0))]).astype(np.int64)
    return RowPlan(first, start[order], length[order], untrained)


def _pieces(file: TokenFile, sequence_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Start and number of inputs of every piece, in document order."""
    inputs = np.maximum(file.lengths - 1, 0)
    count = -(-inputs // sequence_length)
    document = np.repeat(np.arange(len(inputs)), count)
    within = np.arange(len(document)) - np.repeat(np.cumsum(count) - count, count)
    start = file.offsets[:-1][document] + within * sequence_length
    length = np.minimum(inputs[document] - within * sequence_length, sequence_length)
    return start.astype(np.int64), length.astype(np.int64)


def best_fit(length: np.ndarray, capacity: int) -> np.ndarray:
    """Row of each piece; rows are numbered by the first piece (in document order) that they hold."""
    row = np.empty(len(length), np.int64)
    full = length == capacity
    row[full] = np.arange(int(full.sum()))
    rows = int(full.sum())
    open_rows: list[list[int]] = [[] for _ in range(capacity + 1)]  # by room that is left
    rooms = 0  # bit r is set when a row with room r is open
    for piece in np.argsort(-length, kind="stable")[int(full.sum()) :].tolist():
        need = int(length[piece])
        fitting = rooms >> need
        if fitting:
            room = need + (fitting & -fitting).bit_length() - 1
            chosen = open_rows[room].pop(0)
            rooms ^= (1 << room) if not open_rows[room] else 0
        else:
            room, chosen = capacity, rows
            rows += 1
        row[piece] = chosen
        open_rows[room - need].append(chosen)
        rooms |= 1 << (room - need) if room > need else 0
    return _numbered_by_first(row)


def _numbered_by_first(row: np.ndarray) -> np.ndarray:
    """The same rows, numbered in the order in which they first occur."""
    _, first, inverse = np.unique(row, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]
