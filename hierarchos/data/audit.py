"""What a person should see before paying for training: rows as tokens, and whether the chat template and the end tokens hold together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from hierarchos.data.encode import CHUNK, Encoder
from hierarchos.data.rows import BadRow
from hierarchos.data.tokenizer import TextTokenizer

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.data.formats import Example
    from hierarchos.data.options import EncodeOptions


@dataclass(frozen=True)
class Row:
    """One row as it is trained on. where: file and line; fault: why it is left out, None where it is used; cut: tokens that are lost."""

    where: str
    ids: np.ndarray
    weights: np.ndarray
    fault: str | None = None
    cut: int = 0
    chat: bool = False


@dataclass
class Audit:
    """Counts over all rows. `problems(...)` are sentences about what is wrong."""

    tokenizer: TextTokenizer
    wants_bos: bool
    rows: int = 0
    used: int = 0
    tokens: int = 0
    trained: int = 0
    faults: Counter = field(default_factory=Counter)
    bos: Counter = field(default_factory=Counter)
    unended: list[str] = field(default_factory=list)
    ends: Counter = field(default_factory=Counter)

    def add(self, row: Row) -> None:
        """Takes a row in."""
        self.rows += 1
        if row.fault is not None:
            self.faults[row.fault] += 1
            return
        self.used += 1
        self.tokens += len(row.ids)
        self.trained += int((row.weights[1:] > 0).sum())
        if self.tokenizer.bos_id is not None:
            self.bos[leading(row.ids, self.tokenizer.bos_id)] += 1
        last = [int(number) for number, weight in zip(row.ids, row.weights, strict=True) if weight > 0][-1:]
        if last and last[0] in self.tokenizer.special_tokens.values():
            self.ends[last[0]] += 1
        elif not row.cut:
            self.unended.append(row.where)

    def problems(self, generation_ends: Iterable[int] | None) -> list[str]:
        """What would go wrong after training. generation_ends: the stop tokens of the generation config that will be exported."""
        if not self.used:
            return ["no row is used, so nothing would be trained"]
        found, name = [], self.tokenizer.core.id_to_token
        wrong = {count: rows for count, rows in self.bos.items() if count > 1 or (self.wants_bos and count == 0)}
        for count, rows in sorted(wrong.items()):
            found.append(f"{rows} rows begin with {count} BOS tokens ({name(self.tokenizer.bos_id)}); exactly one is right")
        if self.unended:
            first = self.unended[0]
            found.append(
                f"{len(self.unended)} rows end without a trained end-of-turn token, so the model never learns to stop; first: {first}"
            )
        if generation_ends is not None:
            for number in sorted(set(self.ends) - set(generation_ends)):
                found.append(
                    f"the end token that is trained, {number} ({name(number)}), is not one of the generation config's eos_token_id"
                )
        return found


def leading(ids, number: int) -> int:
    """How often a token stands at the beginning, one behind the other: elsewhere it may begin turns."""
    return next((i for i, other in enumerate(ids) if other != number), len(ids))


def rows_of(examples: Iterable[Example], tokenizer: TextTokenizer, options: EncodeOptions) -> Iterator[Row]:
    """Every example as a row: encoded, cut or left out as training does."""
    import numpy as np

    encoder, examples = Encoder(tokenizer, options), iter(examples)
    empty = np.zeros(0, np.int32), np.zeros(0, np.float32)
    while chunk := list(islice(examples, CHUNK)):
        for example, ids, weights in encoder.encode(chunk):
            place, chat = example.row.where, example.messages is not None
            if isinstance(ids, BadRow):
                yield Row(place, *empty, fault=ids.detail, chat=chat)
                continue
            fault, kept = fate(ids, weights, options)
            yield Row(place, ids[:kept], weights[:kept], fault, len(ids) - kept, chat)


def fate(ids, weights, options: EncodeOptions) -> tuple[str | None, int]:
    """Why a row is left out (None: it is used), and how many of its tokens are kept."""
    limit = None if options.max_length is None else options.max_length + 1
    too_long = limit is not None and len(ids) > limit and options.on_long_row != "split"
    if too_long and options.on_long_row in ("drop", "error"):
        return f"longer than train.sequence_length ({len(ids)} tokens)", len(ids)
    kept = limit if too_long else len(ids)
    if not (weights[1:kept] > 0).any():
        return ("cut before its first trained token" if (weights[1:] > 0).any() else "no trained token"), kept
    return None, kept
