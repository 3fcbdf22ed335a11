"""Conversations: prompts as they were taught, state carried or read again, the state file and everything that it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hierarchos.data.tokenizer_training import train_tokenizer
from hierarchos.errors import UserError
from hierarchos.generation.coherent.chat import ChatOptions, Conversation, prompt_text
from hierarchos.generation.coherent.feedback import LONGEST, Feedback, tail
from hierarchos.generation.coherent.learning import PASSIVE_RATE, Learner, pair, worth_learning
from hierarchos.generation.coherent.overlay import Overlay, read
from hierarchos.generation.coherent.sampling import GREEDY, Sampling
from hierarchos.generation.coherent.session import CoherentSession
from hierarchos.models.coherent_v9.config import resolve
from hierarchos.models.coherent_v9.memory import FastMemory
from hierarchos.models.coherent_v9.parameters import initial_values
from tests.coherent_v9.small import small


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["to be or not to be, that is the question"] * 3, 270)


@pytest.fixture(scope="module")
def opened(device, tokenizer):
    """A session over a fresh model."""
    cfg = small(vocab_size=tokenizer.size)
    session = CoherentSession(cfg, initial_values(cfg, 0), device, longest=16)
    yield session
    session.close()


def talk(opened, tokenizer, sampling=GREEDY, **options) -> Conversation:
    opened.reset()
    return Conversation(opened, tokenizer, sampling, ChatOptions(max_new_tokens=4, **options), {"weights": "w", "tokenizer": "t"})


def test_prompts_are_written_as_they_were_taught():
    history = [("a", "b")]
    assert prompt_text("hi", ChatOptions(), []) == "### Instruction:\nhi\n\n### Response:\n"
    assert prompt_text("hi", ChatOptions(), history).startswith("### Previous Context:\nUser: a\nAssistant: b\n\n### Instruction:\nhi")
    assert prompt_text("hi", ChatOptions(carry=True), history) == "### Instruction:\nhi\n\n### Response:\n"
    assert prompt_text("hi", ChatOptions(form="user", system="be kind"), []) == "User: [be kind]\nhi\n\nAssistant: "


def test_an_answer_streams_and_is_kept(opened, tokenizer):
    conversation = talk(opened, tokenizer)
    pieces = list(conversation.reply("to be"))
    assert "".join(pieces) == conversation.last.text == conversation.history[0][1] and conversation.last.stopped == "length"
    assert opened.position == len(tokenizer.encode(prompt_text("to be", ChatOptions(), []))) + 4


def test_carried_state_goes_on_and_history_starts_anew(opened, tokenizer):
    carried, fresh = talk(opened, tokenizer, carry=True), None
    carried.turn("to be")
    middle = opened.position
    carried.turn("or not")
    assert opened.position > middle
    fresh = talk(opened, tokenizer)
    fresh.turn("to be")
    fresh.turn("or not")
    assert opened.position == len(tokenizer.encode(prompt_text("or not", fresh.options, fresh.history[:1]))) + len(fresh.last.tokens)


def test_a_caller_that_stops_early_keeps_what_was_written(opened, tokenizer):
    conversation = talk(opened, tokenizer)
    pieces = conversation.reply("to be")
    first = next(pieces)
    pieces.close()
    assert conversation.history == [("to be", first)]


def test_the_end_token_ends_and_is_fed_but_not_shown(opened, tokenizer, monkeypatch):
    conversation = talk(opened, tokenizer)
    monkeypatch.setattr("hierarchos.generation.coherent.chat.choose", lambda *_: tokenizer.eos_id)
    answer, before = conversation.turn("to be"), opened.position
    assert (answer.text, answer.stopped) == ("", "end") and opened.rosa[0].tokens[-1] == tokenizer.eos_id and before > 0


def test_a_heading_ends_and_is_fed_but_not_shown(opened, tokenizer, monkeypatch):
    conversation, mark = talk(opened, tokenizer), tokenizer.encode("#")[0]
    monkeypatch.setattr("hierarchos.generation.coherent.chat.MARK", "#")  # this tokenizer has no ###
    monkeypatch.setattr("hierarchos.generation.coherent.chat.choose", lambda *_: mark)
    answer = conversation.turn("to be")
    assert (answer.text, answer.stopped) == ("", "heading") and opened.rosa[0].tokens[-1] == mark


@pytest.mark.parametrize(("text", "ends"), [("###", True), (" ###\n", True), ("####", True), ("a ### b", False), ("##", False)])
def test_only_a_short_token_is_a_heading(text, ends, opened, tokenizer, monkeypatch):
    conversation = talk(opened, tokenizer)
    monkeypatch.setattr(type(tokenizer), "decode", lambda *_: text)
    assert (conversation.ends(5) == "heading") is ends


def test_doubt_ends_an_answer(opened, tokenizer):
    assert talk(opened, tokenizer, Sampling(temperature=0.0, entropy_stop=0.5)).turn("to be").stopped == "entropy"
    assert talk(opened, tokenizer, Sampling(temperature=0.0, eos_stop=1e-9)).turn("to be").stopped == "end token"


def test_a_state_file_goes_on_bit_for_bit(opened, tokenizer, tmp_path):
    conversation = talk(opened, tokenizer, carry=True)
    conversation.turn("to be")
    conversation.save(tmp_path / "state.json")
    wanted, logits = conversation.turn("or not").text, opened.state()
    again = talk(opened, tokenizer, carry=True)
    again.load(tmp_path / "state.json")
    assert again.history == conversation.history[:1]
    assert again.turn("or not").text == wanted
    assert all(np.array_equal(opened.state()[name], value) for name, value in logits.items())


def refused(opened, tokenizer, tmp_path, change) -> UserError:
    """The error of a state file that was changed."""
    conversation = talk(opened, tokenizer, carry=True)
    conversation.turn("to be")
    path = tmp_path / "state.json"
    conversation.save(path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    before = opened.position
    with pytest.raises(UserError) as told:
        conversation.load(path)
    assert opened.position == before and str(told.value).endswith("the file is unchanged, the conversation was not continued")
    return told.value


def of_another_model(content) -> None:
    from hierarchos.models.coherent_v9.contract import digest_of

    content["architecture_contract"]["h_stride"] = 4
    content["architecture_contract_sha256"] = digest_of(content["architecture_contract"])


WRONG = {
    "another model: h_stride is 4 there and 2 here": of_another_model,
    "the chat state was made with other weights": lambda c: c["identity"].update(weights="x"),
    "the chat state was made with other tokenizer": lambda c: c["identity"].update(tokenizer="x"),
    "h.M holds a value that is not finite": lambda c: c["state"]["h.M"]["values"].__setitem__(3, float("nan")),
    "l.n1 has shape [1, 17]; this model carries [1, 16]": lambda c: c["state"]["l.n1"].update(shape=[1, 17]),
    "drift is missing; this model carries [1, 16]": lambda c: c["state"].pop("drift"),
    "this is no chat state of version 4: kind 'hierarchos_chat_runtime_state', version 3": lambda c: c.update(version=3),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_state_is_refused(message, opened, tokenizer, tmp_path):
    assert refused(opened, tokenizer, tmp_path, WRONG[message]).what == message


def test_a_digest_that_does_not_fit_its_contract_is_refused(opened, tokenizer, tmp_path):
    error = refused(opened, tokenizer, tmp_path, lambda c: c.update(architecture_contract_sha256="0" * 64))
    assert error.what.startswith("architecture_contract_sha256 is 000000000000..., but its contract gives")


def test_a_file_that_is_no_state_is_refused(opened, tokenizer, tmp_path):
    (tmp_path / "state.json").write_text("not json")
    with pytest.raises(UserError, match="the chat state cannot be read: it is not a JSON object"):
        talk(opened, tokenizer).load(tmp_path / "state.json")


def learner(opened, policy: str = "validated", overlay: Overlay | None = None) -> Learner:
    opened.set_memory(FastMemory.empty(opened.cfg))
    return Learner(opened, lambda: Feedback(opened.cfg, initial_values(opened.cfg, 0), opened.memory.device), policy, overlay)


def test_feedback_writes_to_the_memory_alone(opened, tokenizer):
    conversation = talk(opened, tokenizer)
    assert conversation.command("/learn", "") == "there is no answer yet" and conversation.command("/sing", "") is None
    conversation.learner = learner(opened)
    conversation.turn("to be")
    assert conversation.command("/learn", "or not").startswith("learned: objective")
    written = opened.fast.values.copy()
    assert written.any()
    conversation.turn("that is")  # a new turn starts from nothing, but the memory stays
    assert np.array_equal(opened.fast.values, written)
    assert np.array_equal(opened.memory.store.read(opened.machine.own("memory/fast")), written)
    told = conversation.command("/correct", "the question")
    assert told.count(";") == 1 and "learned: objective" in told


def test_without_permission_nothing_is_written(opened, tokenizer):
    conversation = talk(opened, tokenizer)
    conversation.learner = learner(opened, "off")
    conversation.turn("to be")
    for command, rest in (("/learn", ""), ("/reject", ""), ("/correct", "or not")):
        assert conversation.command(command, rest) == "nothing is written to the memory: coherent.ltm_writes=off"
    assert not opened.fast.values.any()


@pytest.mark.parametrize(("policy", "writes"), [("validated", 0), ("prompt", 1), ("prompt+response", 2)])
def test_passive_learning_follows_each_turn(policy, writes, opened, tokenizer, monkeypatch):
    conversation = talk(opened, tokenizer)
    conversation.learner = learner(opened, policy)
    monkeypatch.setattr("hierarchos.generation.coherent.learning.worth_learning", lambda tokens: True)
    conversation.turn("to be")
    outcomes = conversation.learner.passive_outcomes
    assert len(outcomes) == writes and opened.fast.values.any() == (writes > 0)
    if writes == 2:  # this model knows nothing: its answers are too surprising
        assert outcomes[1].memory is None and outcomes[1].attempts == 0 and outcomes[1].before > 1.0
    if writes:
        assert outcomes[0].memory is not None and np.abs(opened.fast.values).max() <= PASSIVE_RATE


def test_answers_that_repeat_themselves_are_not_learned():
    assert worth_learning(range(8)) and not worth_learning(range(7))
    assert not worth_learning([1, 2] * 4)
    few = [1, 2, 3, 4, 5, 6, 1, 3, 5, 2, 4, 6, 1, 4, 2, 5, 3, 6, 2, 1]
    assert not worth_learning(few) and worth_learning(few[:19])  # 6 of 20 tokens differ: less than 0.35


def test_long_sequences_keep_their_end():
    rows = tail(pair(range(2000), range(2000, 2010)))
    assert rows.length == LONGEST and rows.ids[0, -1] == 2009 and (rows.labels[0] != -100).sum() == 10


def test_what_was_learned_is_there_at_the_next_start(opened, tokenizer, tmp_path):
    path = tmp_path / "learned.safetensors"
    conversation = talk(opened, tokenizer)
    conversation.learner = learner(opened, overlay=Overlay(path, opened.cfg, "w"))
    conversation.turn("to be")
    assert not path.exists()
    conversation.command("/learn", "or not")
    conversation.command("/learn", "that is")
    again, values = Overlay(path, opened.cfg, "w"), initial_values(opened.cfg, 0)
    assert np.allclose(again.values, opened.fast.values, atol=1e-9) and again.values.any()
    assert np.array_equal(again.over(values)["ltm.vals"], values["ltm.vals"] + again.values)
    again.add(np.full_like(again.values, 0.5))
    assert np.array_equal(read(path, opened.cfg, "w"), again.values)


def test_a_wrong_overlay_is_refused(opened, tmp_path):
    path = tmp_path / "learned.safetensors"
    Overlay(path, opened.cfg, "w").add(np.zeros((8, 4), np.float32))
    with pytest.raises(UserError, match="the overlay was learned over other weights"):
        read(path, opened.cfg, "x")
    with pytest.raises(UserError, match="another model: its contract digest is"):
        read(path, resolve({**opened.cfg.values, "h_stride": 4}), "w")
    Overlay(path, opened.cfg, "w").add(np.full((8, 4), np.nan, np.float32))
    with pytest.raises(UserError, match="the overlay is damaged: its values have another shape or are not finite"):
        read(path, opened.cfg, "w")
    path.write_text("something else")
    with pytest.raises(UserError, match="this is no overlay of the fast memory: its format is None"):
        read(path, opened.cfg, "w")
