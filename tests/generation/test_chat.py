"""Conversations: only new tokens go through the model, answers stream as whole characters, turns are taken back when they do not fit."""

import json
from typing import ClassVar

import pytest

from hierarchos.data.chat import ChatTemplate
from hierarchos.errors import UserError
from hierarchos.generation.chat import Conversation
from hierarchos.generation.policy import Policy
from hierarchos.generation.streaming import TextStream
from tests.generation.twins import Letters, generator

TURNS = "{% for m in messages %}{{ 'u' if m.role == 'user' else 'a' }}{{ m.content }}{% endfor %}{% if add_generation_prompt %}a{% endif %}"


class Special(Letters):
    special_tokens: ClassVar[dict] = {}


def conversation(template=TURNS, **policy):
    _, _, maker = generator(**policy)
    maker.tokenizer = Special()
    return Conversation(
        maker, ChatTemplate(template, {}), Policy(**{"max_new_tokens": 4, "suppress_tokens": tuple(range(26, 41)), **policy})
    )


def test_two_turns_are_what_the_whole_prompts_give():
    talk = conversation()
    first, second = "".join(talk.reply("hello")), "".join(talk.reply("again"))
    fresh = conversation()
    assert first == fresh.generator.generate(["uhelloa"], fresh.policy)[0].text
    assert second == fresh.generator.generate([f"uhelloa{first}uagaina"], fresh.policy)[0].text
    assert [m["role"] for m in talk.messages] == ["user", "assistant"] * 2


def test_a_second_turn_computes_its_own_tokens_only():
    talk, computed = conversation(), []
    list(talk.reply("hello"))
    extend = talk.generator.session.extend
    talk.generator.session.extend = lambda tokens: (computed.append(len(tokens[0])), extend(tokens))[1]
    list(talk.reply("x"))
    assert computed[0] <= len("a") + len("ux") + len("a") and talk.generator.session.filled[0] > 10


def test_reset_begins_anew_and_save_writes_a_row(tmp_path):
    talk = conversation()
    first = "".join(talk.reply("hello"))
    talk.save(tmp_path / "talk.jsonl")
    assert json.loads((tmp_path / "talk.jsonl").read_text())["messages"][1] == {"role": "assistant", "content": first}
    talk.reset()
    assert "".join(talk.reply("hello")) == first


def test_an_answer_that_is_stopped_is_kept_as_far_as_it_was_read():
    talk = conversation(max_new_tokens=8)
    pieces = talk.reply("hello")
    begun = next(pieces)
    pieces.close()
    assert talk.messages[-1] == {"role": "assistant", "content": begun}


def test_a_template_that_raises_names_the_roles_and_takes_the_turn_back():
    talk = conversation("{% if messages|length > 2 %}{{ raise_exception('one question only') }}{% endif %}u{{ messages[-1].content }}a")
    list(talk.reply("hello"))
    with pytest.raises(UserError, match="the chat template refuses it: one question only; the roles are user,assistant,user") as caught:
        list(talk.reply("more"))
    assert caught.value.where == "turn 3" and len(talk.messages) == 2


def test_a_conversation_longer_than_the_context_is_told_and_goes_on_after_reset():
    talk = conversation()
    with pytest.raises(UserError, match="the conversation has 73 tokens; the model's context has 64"):
        list(talk.reply("x" * 71))
    assert talk.messages == [] and list(talk.reply("x"))


def test_a_turn_for_whose_tokens_there_is_no_memory_is_taken_back(monkeypatch, capsys):
    """The cache of a longer conversation does not fit: the conversation goes on with what it was."""
    from hierarchos.vulkan.errors import OutOfMemory
    from pipelines.commands.chat import answer

    talk = conversation()
    answer(talk, "hello")
    with monkeypatch.context() as patched:
        def full(*_):
            raise OutOfMemory("cache", 1 << 30, 0, 1 << 20, 1 << 20, [])

        patched.setattr(talk.generator, "_kept_session", full)
        answer(talk, "more")
    assert "out of device memory" in capsys.readouterr().err and len(talk.messages) == 2 and talk.generator.session is None
    answer(talk, "again")
    assert [m["role"] for m in talk.messages] == ["user", "assistant"] * 2


class Bytes:
    """One token a byte."""

    @staticmethod
    def decode(ids):
        return bytes(ids).decode("utf-8", errors="replace")


def test_characters_come_whole():
    text = "naïve 🌍 ok"
    stream = TextStream(Bytes.decode)
    pieces = [stream.push(byte) for byte in text.encode()]
    assert "".join(pieces) + stream.finish() == text and not any("\ufffd" in piece for piece in pieces)
    assert pieces.count("") == 1 + 3  # bytes of ï and of the globe that are not their last


def test_nothing_of_a_stop_string_is_shown():
    stream = TextStream(Bytes.decode, ["END"])
    assert "".join(stream.push(byte) for byte in b"one EN two EEND") + stream.finish() == "one EN two E"
    other = TextStream(Bytes.decode, ["END"])
    assert "".join(other.push(byte) for byte in b"one EN") + other.finish() == "one EN"
