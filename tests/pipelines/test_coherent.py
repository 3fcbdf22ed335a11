"""A Hierarchos model from nothing to a package, fine-tuned, and talked with, through the command line."""
from __future__ import annotations

import io
import json

import pytest

from tests.coherent_v9.small import WORDS
from tests.pipelines.test_stages import ROWS, SHORT, rows, told  # noqa: F401  (rows is a fixture)


def test_train_finetune_and_chat(rows, monkeypatch):  # noqa: F811
    ended = rows.call("train", *WORDS, *SHORT, *ROWS, "data.layout=pad", "run.dir=first")
    assert ended.status == 0, ended.err
    stages = told(rows.path / "first")["stages"]
    assert 4.0 < stages["train"]["facts"]["loss"] < 7.0 and stages["evaluate"]["facts"]["loss"] > 0
    assert (rows.path / "first/model/hierarchos_rust_config.json").is_file()

    more = ["data.layout=pad", "data.pad_to=longest", "coherent.length_buckets=2", "coherent.persist_state=true"]
    tuned = rows.call("finetune", "model.path=first/model", *SHORT, *ROWS, *more, "run.dir=tuned")
    assert tuned.status == 0 and "tensors change" in tuned.out + tuned.err and "(coherent.trained; peft=none: all)" in tuned.out + tuned.err
    assert changed(rows.path / "first/model", rows.path / "tuned/model") <= {"low rank, routers, memory"}

    monkeypatch.setattr("sys.stdin", io.StringIO("to be\n/learn or not\n/quit\n"))
    files = ["coherent.chat_state_file=state.json", "coherent.ltm_overlay_file=learned.safetensors", "coherent.ltm_writes=prompt"]
    talked = rows.call("chat", "model=local", "model.path=tuned/model", "generate.max_new_tokens=2", *files)
    assert talked.status == 0 and "learned: objective" in talked.out + talked.err, talked.err
    assert (rows.path / "learned.safetensors").is_file()
    state = json.loads((rows.path / "state.json").read_text())
    assert state["history"][0][0] == "to be" and state["position"] > 2

    monkeypatch.setattr("sys.stdin", io.StringIO("or not\n/sing\n/save rows.jsonl/new\n/save rows.jsonl\n"))
    again = rows.call("chat", "model=local", "model.path=tuned/model", "generate.max_new_tokens=2", *files)
    assert again.status == 0 and f"going on from state.json: 1 turn, {state['position']} tokens" in again.err, again.err
    assert "/sing is no command: /reset, /save FILE, /system TEXT, /learn [TEXT], /reject, /correct TEXT, /quit" in again.err
    assert "the chat state cannot be written" in again.err                   # and the conversation is not lost
    assert "rows.jsonl holds something that is not a chat state" in again.err
    more = json.loads((rows.path / "state.json").read_text())
    assert [asked for asked, _ in more["history"]] == ["to be", "or not"] and more["position"] > state["position"]

    monkeypatch.setattr("sys.stdin", io.StringIO("to be\n"))
    other = rows.call("chat", "model=local", "model.path=first/model", "coherent.chat_state_file=state.json")
    assert other.status == 2 and "the chat state was made with other weights" in other.err


def test_chat_takes_what_its_message_says_to_type(rows, monkeypatch):  # noqa: F811
    """model.config counts in a conversation too."""
    from tests.coherent_v9.small import talker

    talker(rows.path)
    monkeypatch.setattr("sys.stdin", io.StringIO("to be\n"))
    allowed = ["coherent.hebbian_writes=true", "model.config.allow_untrained_hebbian_writer=true"]
    talked = rows.call("chat", "model=local", "model.path=talker", "generate.max_new_tokens=2", *allowed)
    assert talked.status == 0, talked.err


def changed(before, after) -> set[str]:
    """Which groups of tensors differ between two packages."""
    from hierarchos.models.coherent_v9.package import load
    from pipelines.config.coherent import LOW_RANK

    first, second = load(before).values, load(after).values
    names = [name for name in first if not (first[name] == second[name]).all()]
    assert names
    return {"low rank, routers, memory" if any(part in name for part in LOW_RANK) else name for name in names}


WHOLE = ["model.config.full_sample_bptt=true", "model.config.detach_every_n_steps=null"]
INNER = ["model.config.ltm_training_mode=inner-update", "model.config.ltm_lr=50"]


@pytest.mark.parametrize(("first", "second", "alike"), [
    (WHOLE, [*WHOLE, "train.recompute=true"], True),
    (INNER, [*INNER, "model.config.isolate_batch_ltm=false"], False),
], ids=["one graph, cut into segments", "rows apart, or one memory for all"])
def test_what_two_settings_change(first, second, alike, rows):  # noqa: F811
    losses = []
    for number, words in enumerate((first, second)):
        ended = rows.call("train", *WORDS, *SHORT, *ROWS, "data.layout=pad", "model.config.training_chunk_size=4", *words,
                          "train.batch_size=4", "train.learning_rate=0.01", f"run.dir=run{number}", "--until", "train")
        assert ended.status == 0, ended.err
        losses.append(told(rows.path / f"run{number}")["stages"]["train"]["facts"]["loss"])
    assert (abs(losses[0] - losses[1]) < 2e-5) is alike, losses


@pytest.mark.parametrize(("words", "message"), [
    (["model.config.ltm_topk=99"], "ltm_topk is 99, but there are only 8 slots"),
    (["model.config.rwkv_head_size=5"], "rwkv_head_size is 5, which does not divide the width 16"),
    (["model.config.h_strid=5"], "h_strid is not a key of coherent-v9"),
    (["model.config.architecture_revision=legacy-v8"], "this is a legacy-v8 model"),
])
def test_wrong_settings_are_told_before_anything_starts(rows, words, message):  # noqa: F811
    small = [word for word in WORDS if word.partition("=")[0] not in {w.partition("=")[0] for w in words}]
    ended = rows.call("train", *small, *words, *ROWS)
    assert ended.status == 2 and message in ended.err and "nothing was started" in ended.err and not rows.runs("train")
