"""Examples to token ids, with what is trained: completions and assistant turns, always with the token that ends them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from hierarchos.data.encode_chat import ChatEncoder
from hierarchos.data.formats import Example
from hierarchos.data.options import EncodeOptions
from hierarchos.data.rows import BadRow, RowReport
from hierarchos.data.token_file import TokenFile
from hierarchos.data.tokenizer import TextTokenizer, end_token
from hierarchos.data.weighing import fitting_pair, pair_weights
from hierarchos.errors import UserError, nearest

CHUNK = 512  # examples encoded together, in parallel


class Encoder:
    """Encodes examples for one tokenizer and one set of options; `stop_ids` counts the end tokens that are trained."""

    def __init__(self, tokenizer: TextTokenizer, options: EncodeOptions):
        _check_choice("add_bos", options.add_bos, ("auto", "always", "never"))
        _check_choice("on_long_row", options.on_long_row, ("split", "truncate", "drop", "error"))
        if options.add_bos == "always" and tokenizer.bos_id is None:
            raise UserError("data.add_bos=always, but the tokenizer has no BOS token", where=tokenizer.place, command="data.add_bos=auto")
        self.tokenizer, self.options = tokenizer, options
        self.wants_bos = options.add_bos == "always" or (options.add_bos == "auto" and tokenizer.adds_bos)
        self.chat = ChatEncoder(tokenizer, options)
        self.stop_ids: Counter[int] = Counter()

    def encode(self, examples: list[Example]) -> Iterator[tuple[Example, np.ndarray, np.ndarray] | tuple[Example, BadRow, None]]:
        """Yields (example, ids int32 [n], weights float32 [n]) in order, or the fault in place of the ids."""
        texts = [text for example in examples for text in _texts(example)]
        encoded = iter(self.tokenizer.encode_fast(texts))
        for example in examples:
            try:
                ids, weights = self._one(example, [next(encoded) for _ in _texts(example)])
            except BadRow as error:
                yield example, error, None
                continue
            yield example, ids, weights

    def _one(self, example: Example, pieces: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        if example.tokens is not None:
            return self._given(example.tokens)
        if example.messages is not None:
            ids, weights, stops = self.chat.encode(example.messages)
        elif example.pair is not None:
            ids, weights, stops = self._pair(example, *pieces)
        else:
            ids, stops = self._ended(pieces[0])
            weights = [1.0] * len(ids)
        self.stop_ids.update(stops)
        return self._with_one_bos(ids, weights)

    def _pair(self, example: Example, prompt: list[int], completion: list[int]) -> tuple[list[int], list[float], list[int]]:
        ids, count, stops = self._joined(example, prompt, completion)
        ids, count = fitting_pair(self.options, ids, count)
        return ids, pair_weights(self.options, count, len(ids) - count), stops

    def _joined(self, example: Example, prompt: list[int], completion: list[int]) -> tuple[list[int], int, list[int]]:
        """(ids with their end, tokens of the prompt, end tokens)."""
        if self.tokenizer.splits_exactly:
            ended, stops = self._ended(completion)
            return prompt + ended, len(prompt), stops
        whole = self.tokenizer.encode_batch(["".join(example.pair)])[0]
        begin = len(example.pair[0])
        ids, stops = self._ended(whole.ids)
        return ids, sum(end <= begin for _, end in whole.offsets), stops

    def _ended(self, ids: list[int]) -> tuple[list[int], list[int]]:
        """The ids with the end token behind them, once."""
        end = end_token(self.tokenizer)
        return (ids if ids[-1:] == [end] else [*ids, end]), [end]

    def _with_one_bos(self, ids: list[int], weights: list[float]) -> tuple[np.ndarray, np.ndarray]:
        """Decided from the ids: whatever wrote BOS before, there is one at most, and one if the tokenizer wants it."""
        bos = self.tokenizer.bos_id
        written = 0
        while bos is not None and written < len(ids) - 1 and ids[written] == bos:
            written += 1
        if written or self.wants_bos:
            ids, weights = [bos, *ids[written:]], [0.0, *weights[written:]]
        return np.asarray(ids, np.int32), np.asarray(weights, np.float32)

    def _given(self, tokens: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        largest = int(tokens["ids"].max())
        if largest >= self.tokenizer.size:
            raise BadRow("id beyond the vocabulary", f"input_ids holds {largest}; the vocabulary ends at {self.tokenizer.size - 1}")
        return tokens["ids"], tokens["weights"]


def encode_examples(examples: Iterable[Example], tokenizer: TextTokenizer, options: EncodeOptions, report: RowReport) -> TokenFile:
    """Encodes everything. Bad rows go to the report's policy; nothing left to train raises `UserError`."""
    encoder, keeper = Encoder(tokenizer, options), _Keeper(options, report)
    examples = iter(examples)
    while chunk := list(islice(examples, CHUNK)):
        for example, ids, weights in encoder.encode(chunk):
            if isinstance(ids, BadRow):
                report.reject(example.row.where, ids)
            else:
                keeper.take(example, ids, weights)
    report.finish()
    report.used = len(keeper.ids)
    stop_ids = sorted(encoder.stop_ids)
    if stop_ids:
        names = ", ".join(f"{number} {tokenizer.core.id_to_token(number)} ({encoder.stop_ids[number]} times)" for number in stop_ids)
        report.notice(f"end tokens trained: {names}")
    meta = {"vocab_size": tokenizer.size, "tokenizer": tokenizer.fingerprint, "stop_ids": stop_ids}
    return keeper.token_file(meta)


class _Keeper:
    """Cuts long documents, leaves out those with nothing to train, and says why when none is left."""

    def __init__(self, options: EncodeOptions, report: RowReport):
        self.options, self.report = options, report
        self.limit = None if options.max_length is None else options.max_length + 1  # the last token is only a target
        self.ids: list[np.ndarray] = []
        self.weights: list[np.ndarray] = []
        self.seen_tokens = 0
        self.causes: Counter[str] = Counter()
        self.example: tuple[str, str, int] | None = None

    def take(self, example: Example, ids: np.ndarray, weights: np.ndarray) -> None:
        self.seen_tokens += len(ids)
        trained_before = int((weights[1:] > 0).sum())
        kept = self._fitting(example, len(ids))
        if kept == 0:
            return self._leave_out(example, "longer than train.sequence_length", ids, weights, kept)
        if not (weights[1:kept] > 0).any():
            cause = "cut before its first trained token" if trained_before else "no trained token"
            return self._leave_out(example, cause, ids, weights, kept)
        if kept < len(ids):
            self.report.truncated_rows += 1
            self.report.truncated_tokens += len(ids) - kept
        self.ids.append(ids[:kept])
        self.weights.append(weights[:kept])

    def _fitting(self, example: Example, length: int) -> int:
        """How many of the tokens are kept; 0 drops the document."""
        if self.limit is None or length <= self.limit or self.options.on_long_row == "split":
            return length
        if self.options.on_long_row == "error":
            what = f"a document of {length} tokens where {self.options.max_length} fit"
            raise UserError(what, where=example.row.where, command="data.on_long_row=truncate  (or split, drop)")
        return self.limit if self.options.on_long_row == "truncate" else 0

    def _leave_out(self, example: Example, cause: str, ids: np.ndarray, weights: np.ndarray, kept: int) -> None:
        first = int(np.argmax(weights[1:] > 0)) + 1 if (weights[1:] > 0).any() else len(ids)
        told = f"{first} tokens before the first trained one, {len(ids) - first} from there"
        told += f"; cut after {kept}" if 0 < kept < len(ids) else ""
        self.causes[cause] += 1
        self.report.bad[cause] += 1
        self.report.examples.setdefault(cause, f"{example.row.where}  {told}")
        if self.example is None:
            self.example = example.row.where, told, len(ids)

    def token_file(self, meta: dict) -> TokenFile:
        if not self.ids:
            raise self._nothing_to_train()
        lengths = [len(ids) for ids in self.ids]
        weights = np.concatenate(self.weights)
        plain = bool(np.isin(weights, (0.0, 1.0)).all())
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return TokenFile(np.concatenate(self.ids), offsets, (weights > 0).astype(np.uint8), None if plain else weights, meta)

    def _first_of_each(self) -> list[str]:
        """The first row that was left out for each reason."""
        return [f"for example  {place}" for place in self.report.examples.values()]

    def _nothing_to_train(self) -> UserError:
        what = f"0 of {self.seen_tokens} tokens are trained"
        hint = [f"{count} rows: {cause}" for cause, count in sorted(self.report.bad.items())]
        if self.example is None:
            total = sum(self.report.bad.values())
            return UserError(f"none of {total} rows can be used" if total else "there are no rows", hint=[*hint, *self._first_of_each()])
        where, told, length = self.example
        long = any(cause.startswith(("cut", "longer")) for cause in self.causes)
        command = f"train.sequence_length={length - 1}  or  data.on_long_row=split" if long else "data.train_on_prompt=true"
        return UserError(what, where=where, hint=[*hint, f"this row: {told}"], command=command)


def _texts(example: Example) -> tuple[str, ...]:
    """What is encoded in the batch: the text, or prompt and completion."""
    if example.pair is not None:
        return example.pair
    return () if example.text is None else (example.text,)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"data.{name}={value} is not a choice", nearest=nearest(value, choices), hint=f"choices: {', '.join(choices)}")
