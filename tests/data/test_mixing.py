"""Several sources as one: shares of tokens, ends, repetition, order; and rows through a buffer."""

from __future__ import annotations

import numpy as np
import pytest

from hierarchos.data.mixing import join, mix, through_buffer
from hierarchos.data.token_file import TokenFile
from hierarchos.errors import UserError


def source(first: int, documents: int, length: int, weight: float | None = None) -> TokenFile:
    """Documents of `length` tokens, all with the document's number."""
    ids = np.repeat(np.arange(first, first + documents, dtype=np.int32), length)
    offsets = np.arange(documents + 1, dtype=np.int64) * length
    weights = None if weight is None else np.full(len(ids), weight, np.float32)
    return TokenFile(ids, offsets, np.ones(len(ids), np.uint8), weights, {"vocab_size": 9, "stop_ids": [first]})


FILES = {"short": source(0, 100, 3), "long": source(1000, 50, 20)}
WEIGHTS = {"short": 1.0, "long": 3.0}


def documents(file: TokenFile) -> list[int]:
    return file.ids[file.offsets[:-1]].tolist()


def test_weights_are_shares_of_tokens_anywhere_in_the_mixture():
    mixed, shares = mix(FILES, WEIGHTS, "first", seed=0)
    assert shares["short"].passes == 1 and shares["long"].passes < 1 and len(set(documents(mixed))) == len(mixed)
    for stop in (len(mixed) // 3, len(mixed)):
        ids = mixed.ids[: mixed.offsets[stop]]
        assert abs(int((ids >= 1000).sum()) - 0.75 * len(ids)) <= 20


def test_shorter_sources_begin_again_until_all_have_come():
    mixed, shares = mix(FILES, WEIGHTS, "all", seed=0)
    assert shares["long"].passes == 1 and shares["short"].passes == pytest.approx(1000 / 3 / 300, abs=0.01)
    counts = np.bincount([number for number in documents(mixed) if number < 1000], minlength=100)
    assert counts.min() == 1 and counts.max() == 2


def test_seed_alone_decides_the_order():
    one, same, other = (documents(mix(FILES, WEIGHTS, "first", seed)[0]) for seed in (1, 1, 2))
    assert one == same != other


def test_joined_files_keep_weights_and_end_tokens():
    joined = join([source(0, 2, 2), source(5, 1, 3, 0.5)])
    assert joined.weights.tolist() == [1, 1, 1, 1, 0.5, 0.5, 0.5] and joined.offsets.tolist() == [0, 2, 4, 7]
    assert joined.meta == {"vocab_size": 9, "stop_ids": [0, 5]}


def test_weight_that_reads_a_source_without_end_is_refused():
    with pytest.raises(UserError, match="reads this source 2000000 times over"):
        mix({"a": source(0, 1, 10), "b": source(5, 20, 1000)}, {"a": 1e6, "b": 1e3}, "all", 0)


def test_buffer_changes_the_order_and_loses_nothing():
    rows = list(range(1000))
    drawn = list(through_buffer(rows, 50, seed=3))
    assert drawn != rows and sorted(drawn) == rows and drawn == list(through_buffer(rows, 50, seed=3))
    assert all(value <= place + 50 for place, value in enumerate(drawn)) and drawn != list(through_buffer(rows, 50, seed=4))


def test_no_more_rows_are_read_than_the_buffer_needs():
    asked = []

    def rows():
        for number in range(1000):
            asked.append(number)
            yield number

    stream = through_buffer(rows(), 8, seed=0)
    assert len({next(stream) for _ in range(5)}) == 5 and len(asked) == 13
