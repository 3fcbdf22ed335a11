"""Whole runs whose model, tokenizer and rows come from the Hub, in processes of their own with HF_ENDPOINT; and none without sockets."""
from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from tests.bad_input.conftest import TEXTS, package
from tests.bad_input.table import SHORT, SIZE
from tests.hub.server import HubServer, cut_after
from tests.pipelines.conftest import Place

__all__ = ["package"]
HUB = ("model=hub", "model.repo=owner/tiny", "data=hub", "data.repo=owner/rows")
STAGES = "pipeline.stages=[acquire,tokenize,train,export]"


@pytest.fixture
def hub(package: Path, tmp_path: Path, monkeypatch):
    """A Hub with a package and rows; the processes of this test find it by their environment."""
    with HubServer() as server:
        server.add("models", "owner/tiny", {path.name: path.read_bytes() for path in package.iterdir()})
        server.add("datasets", "owner/rows", {"train.jsonl": b"".join(json.dumps({"text": text}).encode() + b"\n" for text in TEXTS)})
        for name, value in {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "*"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


def run(place: Place, *words: str, **environment: str) -> tuple[int, str, str]:
    for name, value in environment.items():
        os.environ[name] = value
    try:
        process = place.start(*words)
        out, err = process.communicate()
    finally:
        for name in environment:
            del os.environ[name]
    return process.returncode, out, err


def told(place: Place, name: str) -> dict:
    return json.loads((place.path / name / "run.json").read_text(encoding="utf-8"))


def test_run_from_the_hub_notes_its_commits_and_repeats_offline(place, hub):
    words = ["finetune", "peft=none", *HUB, *SHORT, "train.accumulation=1", STAGES]
    hub.fail("model.safetensors", cut_after(1000))
    status, _, err = run(place, *words, "run.dir=online")
    assert status == 0, err
    facts = told(place, "online")["stages"]["acquire"]["facts"]
    assert facts["commit"] == hub.repositories["models", "owner/tiny"].refs["main"]
    assert facts["data_commit"] == hub.repositories["datasets", "owner/rows"].refs["main"]
    asked = len(hub.requests)
    status, _, err = run(place, *words, "run.dir=offline", HF_HUB_OFFLINE="1")
    assert status == 0, err
    assert len(hub.requests) == asked
    assert told(place, "offline")["stages"]["tokenize"]["cached"] is True
    weights = [(place.path / name / "model/model.safetensors").read_bytes() for name in ("online", "offline")]
    assert weights[0] == weights[1]


def test_tokenizer_from_the_hub_for_a_new_model(place, hub):
    words = ["train", *SIZE, *SHORT, "data=hub", "data.repo=owner/rows", "tokenizer.source=hub", "tokenizer.repo=owner/tiny",
             "data.streaming=true", "data.max_rows=30", "pipeline.stages=[acquire,tokenize]", "run.dir=run"]
    status, _, err = run(place, *words)
    assert status == 0, err
    stages = told(place, "run")["stages"]
    assert stages["acquire"]["facts"]["tokenizer_commit"] == hub.repositories["models", "owner/tiny"].refs["main"]
    assert stages["tokenize"]["facts"]["rows"]["rows"] == 30


def test_refusal_stops_the_run_with_its_message_and_no_traceback(place, hub):
    status, _, err = run(place, "generate", "model=hub", "model.repo=owner/tinny", "prompt=a")
    assert status == 2 and err.startswith("the Hub has no model owner/tinny that you can read\n  model.repo=owner/tinny\n")
    assert "stopped in acquire; log: " in err and "Traceback" not in err


def test_package_goes_to_the_hub_only_with_the_stage_that_does_it(place, hub):
    asked = {"HF_TOKEN": hub.token, "HF_HUB_DISABLE_XET": "1"}
    words = ["train", *SIZE, *SHORT, "data=hub", "data.repo=owner/rows"]
    status, _, err = run(place, *words, "pipeline.stages=[acquire,tokenize,train,export]", "run.dir=kept", **asked)
    assert status == 0, err
    assert {how for how, path, _ in hub.requests if "owner/rows" not in path} <= {"GET", "HEAD"}
    status, out, err = run(place, "upload", "model.path=kept/model", "export.repo=owner/mine", "run.dir=sent", **asked)
    assert status == 0, err
    made = hub.repositories["models", "owner/mine"]
    package = {path.name: path.read_bytes() for path in (place.path / "kept/model").iterdir()}
    assert made.private and made.commits[made.refs["main"]] == package
    facts = told(place, "sent")["stages"]["upload"]["facts"]
    assert facts["commit"] == made.refs["main"] and f"upload: {hub.url}/owner/mine/tree/main" in out
    assert hub.token not in (place.path / "sent/run.json").read_text() + (place.path / "sent/environment.txt").read_text()


def test_moved_branch_is_read_anew(place, hub):
    words = ["train", *SIZE, *SHORT, "data=hub", "data.repo=owner/rows", "pipeline.stages=[acquire,tokenize]"]
    assert run(place, *words, "run.dir=first")[0] == 0
    hub.repositories["datasets", "owner/rows"].commit({"train.jsonl": b'{"text": "all new rows, and few of them"}\n' * 30})
    assert run(place, *words, "run.dir=second")[0] == 0
    first, second = (told(place, name)["stages"] for name in ("first", "second"))
    assert second["tokenize"]["cached"] is False and first["tokenize"]["digest"] != second["tokenize"]["digest"]


def test_local_paths_need_no_socket(place, package, monkeypatch):
    def refuse(*_: object, **__: object):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    shutil.copytree(package, place.path / "pkg")
    place.write("rows.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    words = ["finetune", "peft=none", "model.path=pkg", "data=jsonl", "data.path=rows.jsonl", "data.validation_fraction=0.3", *SHORT]
    ended = place.call(*words, "train.accumulation=1", "run.dir=run", "prompt=3 and")
    assert ended.status == 0, ended.err
    assert [stage["status"] for stage in told(place, "run")["stages"].values()] == ["done"] * 6
    assert place.call("evaluate", "model.path=run/model", "data=jsonl", "data.path=rows.jsonl", "train.sequence_length=16").status == 0
