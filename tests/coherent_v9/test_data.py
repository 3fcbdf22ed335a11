"""Weights of prompt and answer tokens, and pairs that are too long."""

from __future__ import annotations

import numpy as np
import pytest

from hierarchos.data.options import BatchOptions, EncodeOptions
from hierarchos.data.portable_order import PortableStream, Shuffler
from hierarchos.data.token_file import TokenFile
from hierarchos.data.weighing import fitting_pair, pair_weights
from tests.coherent_v9.cases import vectors


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


def test_the_order_of_rows_is_that_of_the_reference():
    for entry in vectors()["portable_permutation"]:
        assert Shuffler(entry["seed"], entry["epoch"]).shuffle(list(range(entry["n"]))) == entry["permutation"]


def stream(buckets: int = 0, **options) -> PortableStream:
    """Documents of 2, 3, ... 12 tokens."""
    sizes = np.arange(2, 13)
    file = TokenFile(np.arange(sizes.sum()) % 7, np.concatenate([[0], np.cumsum(sizes)]), np.ones(sizes.sum(), np.uint8))
    how = BatchOptions(batch_size=2, sequence_length=16, layout="pad", pad_to="longest", pad_multiple=1, seed=5, **options)
    return PortableStream(file, how, buckets)


def test_batches_come_in_the_portable_order():
    made = stream()
    for epoch in range(2):
        rows = [row for step in range(len(made)) for row in made.rows_of(epoch * len(made) + step).tolist()]
        assert rows == Shuffler(5, epoch).shuffle(list(range(len(made.plan))))
    assert stream(shuffle=False).rows_of(1).tolist() == [2, 3]


def test_buckets_keep_rows_of_like_length_together():
    made = stream(buckets=3)
    batches = [made.rows_of(step).tolist() for step in range(len(made))]
    assert sorted(row for batch in batches for row in batch) == list(range(11))
    shuffler = Shuffler(5, 0)
    order = shuffler.shuffle(list(range(11)))
    sorted_rows = [row for start in (0, 6) for row in sorted(order[start : start + 6], key=lambda row: -row)]
    assert batches == shuffler.shuffle([sorted_rows[start : start + 2] for start in range(0, 11, 2)])
    assert made.batch(0)["ids"].shape[0] == 2 and len({tuple(batch) for batch in batches}) == len(made)


def pair_of(fields: dict, **options) -> tuple[str, str]:
    """Prompt and answer of a row, as coherent-v9 is taught it."""
    from hierarchos.data.formats import read_examples
    from hierarchos.data.options import RowOptions
    from hierarchos.data.rows import Row, RowReport

    return next(read_examples([Row("rows.jsonl", 1, fields)], RowOptions(**{"prompts": "hierarchos", **options}), RowReport())).pair


def test_rows_are_written_as_a_conversation_is():
    """What is taught is what chat writes."""
    from hierarchos.generation.coherent.chat import ChatOptions, prompt_text

    taught = pair_of({"instruction": "Add 1 and 2", "input": "", "output": "3"})
    assert taught == (prompt_text("Add 1 and 2", ChatOptions(), []), "3")
    for names in (("prompt", "completion"), ("question", "answer")):
        row = dict(zip(names, ("Who?", "I"), strict=True))
        assert pair_of(row) == (prompt_text("Who?", ChatOptions(form="user"), []), "I")
        assert pair_of({**row, "input": "Here."})[0] == "User: Here.\n\nUser: Who?\n\nAssistant: "


def test_an_input_stands_under_a_heading_of_its_own():
    found = pair_of({"instruction": "Add", "input": "1 and 2", "output": "3"})[0]
    assert found == "### Instruction:\nAdd\n\n### Input:\n1 and 2\n\n### Response:\n"


def test_other_forms_can_be_asked_for():
    row = {"instruction": "Add", "output": "3"}
    assert pair_of(row, prompts="plain")[0] == "Instruction: Add\nResponse: "
    assert pair_of(row, prompt_template="{prompt} = ")[0] == "Add = "
    assert pair_of({"question": "Who?", "answer": "I"}, prompt_template="{prompt} - ")[0] == "Who? - "


@pytest.mark.parametrize(("words", "expected"), [
    (["model=coherent_v9_tiny"], ("hierarchos", True)),
    (["model=llama_tiny"], ("plain", False)),
    (["model=coherent_v9_tiny", "data.train_on_prompt=false"], ("hierarchos", False)),
    (["model=llama_tiny", "data.train_on_prompt=true"], ("plain", True))])
def test_prompts_are_trained_as_the_kind_of_model_has_it_unless_told(words, expected):
    from pipelines.settings.compose import check_request, compose
    from pipelines.settings.folders import Folders
    from pipelines.settings.resolve import resolve
    from pipelines.stages.tokenize import prompt_settings

    found = prompt_settings(resolve(compose(check_request("train", words, Folders.find()))))
    assert (found["prompts"], found["train_on_prompt"]) == expected
