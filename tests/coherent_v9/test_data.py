"""Weights of prompt and answer tokens, and pairs that are too long."""

from __future__ import annotations

from hierarchos.data.options import EncodeOptions
from hierarchos.data.weighing import fitting_pair, pair_weights


def test_the_beginning_of_an_answer_counts_more_and_its_end_does_not():
    options = EncodeOptions(train_on_prompt=True, prompt_loss_weight=0.1, response_boundary_tokens=2, response_boundary_loss_weight=2.0)
    assert pair_weights(options, 3, 4) == [0.1, 0.1, 0.1, 2.0, 2.0, 1.0, 1.0]
    assert pair_weights(options, 1, 2) == [0.1, 2.0, 1.0]
    assert pair_weights(options, 1, 1) == [0.1, 1.0]


def test_a_masked_prompt_counts_nothing_whatever_its_weight():
    assert pair_weights(EncodeOptions(prompt_loss_weight=0.5, response_loss_weight=2.0), 2, 2) == [0.0, 0.0, 2.0, 2.0]


def test_a_long_pair_keeps_reserved_tokens_of_its_answer():
    options = EncodeOptions(on_long_row="truncate", max_length=7, min_response_tokens=2)
    ids = [*range(10), 20, 21, 22, 23, 99]  # ten of the prompt, four of the answer, the end
    assert fitting_pair(options, ids, 10) == ([5, 6, 7, 8, 9, 20, 21, 99], 5)
    assert fitting_pair(options, [1, 2, 20, 21, 22, 23, 24, 25, 26, 99], 2) == ([1, 2, 20, 21, 22, 23, 24, 99], 2)
    assert fitting_pair(EncodeOptions(on_long_row="truncate", max_length=7), ids, 10) == (ids, 10)
