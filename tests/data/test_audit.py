"""The audit of rows: what is trained, left out and cut, BOS, end tokens and the generation config."""

import numpy as np

from hierarchos.data.audit import Audit, Row, fate, leading
from hierarchos.data.options import EncodeOptions
from hierarchos.data.tokenizer_training import train_tokenizer

TOKENIZER = train_tokenizer(["some text to learn from", "and some more"], 300, chat=True)
END = TOKENIZER.eos_id


def row(*ids, weights=None, **more):
    return Row("rows.jsonl:1", np.array(ids, np.int32), np.array(weights or [1.0] * len(ids), np.float32), **more)


def audited(*rows, wants_bos=False):
    audit = Audit(TOKENIZER, wants_bos)
    for each in rows:
        audit.add(each)
    return audit


def test_rows_that_end_with_a_trained_end_token_are_fine():
    assert audited(row(5, 6, END)).problems([END]) == []


def test_an_end_token_outside_the_mask_is_a_problem():
    [problem] = audited(row(5, 6, END, weights=[0.0, 1.0, 0.0])).problems(None)
    assert problem == "1 rows end without a trained end-of-turn token, so the model never learns to stop; first: rows.jsonl:1"


def test_a_generation_config_with_another_end_is_a_problem():
    [problem] = audited(row(5, END)).problems([7])
    assert problem.startswith(f"the end token that is trained, {END} (") and problem.endswith(
        "is not one of the generation config's eos_token_id"
    )


def test_no_row_at_all_is_a_problem():
    assert audited(Row("rows.jsonl:1", np.zeros(0, np.int32), np.zeros(0, np.float32), fault="role")).problems([END]) == [
        "no row is used, so nothing would be trained"
    ]


def test_two_bos_tokens_are_a_problem_and_none_where_one_is_wanted():
    TOKENIZER.bos_id, before = 3, TOKENIZER.bos_id
    try:
        assert audited(row(3, 3, END)).problems(None)[0].startswith("1 rows begin with 2 BOS tokens (")
        assert audited(row(5, END), wants_bos=True).problems(None)[0].startswith("1 rows begin with 0 BOS tokens (")
        assert audited(row(3, 5, 3, END), wants_bos=True).problems(None) == []  # later ones begin turns
    finally:
        TOKENIZER.bos_id = before


def test_rows_are_left_out_and_cut_for_a_reason():
    ids, last = np.arange(10), np.array([0.0] * 9 + [1.0])
    assert fate(ids, last, EncodeOptions(max_length=4, on_long_row="truncate")) == ("cut before its first trained token", 5)
    assert fate(ids, np.ones(10), EncodeOptions(max_length=4, on_long_row="truncate")) == (None, 5)
    assert fate(ids, np.ones(10), EncodeOptions(max_length=4, on_long_row="drop"))[0] == "longer than train.sequence_length (10 tokens)"
    assert fate(ids, np.zeros(10), EncodeOptions(max_length=40))[0] == "no trained token"
    assert leading([3, 3, 5, 3], 3) == 2
