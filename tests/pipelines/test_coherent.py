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
    assert tuned.status == 0, tuned.err
    assert changed(rows.path / "first/model", rows.path / "tuned/model") <= {"low rank, routers, memory"}

    monkeypatch.setattr("sys.stdin", io.StringIO("to be\n/learn or not\n/quit\n"))
    files = ["coherent.chat_state_file=state.json", "coherent.ltm_overlay_file=learned.safetensors", "coherent.ltm_writes=prompt"]
    talked = rows.call("chat", "model=local", "model.path=tuned/model", "generate.max_new_tokens=2", *files)
    assert talked.status == 0 and "learned: objective" in talked.out + talked.err, talked.err
    assert (rows.path / "learned.safetensors").is_file()
    state = json.loads((rows.path / "state.json").read_text())
    assert state["history"][0][0] == "to be" and state["position"] > 2

    monkeypatch.setattr("sys.stdin", io.StringIO("to be\n"))
    other = rows.call("chat", "model=local", "model.path=first/model", "coherent.chat_state_file=state.json")
    assert other.status == 2 and "the chat state was made with other weights" in other.err


def changed(before, after) -> set[str]:
    """Which groups of tensors differ between two packages."""
    from hierarchos.models.coherent_v9.package import load
    from pipelines.config.coherent import LOW_RANK

    first, second = load(before).values, load(after).values
    names = [name for name in first if not (first[name] == second[name]).all()]
    assert names
    return {"low rank, routers, memory" if any(part in name for part in LOW_RANK) else name for name in names}


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
