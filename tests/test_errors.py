"""Messages for people: layout, nearest names, survival of pickling."""

import pickle

from hierarchos.errors import UserError, nearest


def test_place_stands_beside_a_short_message_and_outcome_beside_the_advice():
    error = UserError("train.lora.rnak is not a setting", where="configs/experiment/mine.yaml:4", nearest="train.lora.rank")
    assert str(error) == (
        "train.lora.rnak is not a setting           configs/experiment/mine.yaml:4\n"
        "  did you mean  train.lora.rank ?          nothing was started"
    )


def test_long_messages_put_place_and_outcome_on_their_own_lines():
    error = UserError("x" * 60, where="rows.jsonl:3", hint=["first", "second"], command="data.format=text", outcome="nothing was lost")
    assert str(error).splitlines() == ["x" * 60, "  rows.jsonl:3", "  first", "  second", "  try  data.format=text", "  nothing was lost"]


def test_nearest_ignores_case_and_gives_none_for_strangers():
    assert nearest("Instuction", ["instruction", "output"]) == "instruction"
    assert nearest("zzz", ["instruction", "output"]) is None


def test_errors_keep_their_fields_across_processes():
    error = pickle.loads(pickle.dumps(UserError("what", where="here", hint="advice")))
    assert str(error) == str(UserError("what", where="here", hint="advice"))


def test_subclasses_pickle_too():
    assert isinstance(pickle.loads(pickle.dumps(UserError("what"))), ValueError)
