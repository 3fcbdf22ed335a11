"""Runs that can be repeated: what their directory keeps, `rerun`, `resume`, and the description for archives."""
from __future__ import annotations

import json
import zipfile
from datetime import datetime

import pytest

from pipelines.repeat import compare
from tests.bad_input.table import SHORT, SIZE
from tests.pipelines.conftest import Place

ROWS = ("data=jsonl", "data.path=rows.jsonl", "data.validation_fraction=0.3")
TINY = ("train", *SIZE, *SHORT, *ROWS, "generate.temperature=0.7")


@pytest.fixture
def rows(place: Place) -> Place:
    place.write("rows.jsonl", "".join(json.dumps({"text": f"{n} and {n} make {n + n}, which is twice {n}."}) + "\n" for n in range(40)))
    return place


def told(path) -> dict:
    return json.loads((path / "run.json").read_text(encoding="utf-8"))


def test_directory_keeps_the_world_of_its_run(rows):
    assert rows.call(*TINY, "pipeline.stages=[acquire,tokenize]", "run.dir=run").status == 0
    run = rows.path / "run"
    assert "numpy==" in (run / "environment.txt").read_text(encoding="utf-8")
    manifest = told(run)
    assert {"config", "data", "tokenizer", "shaders", "code"} <= set(manifest["hashes"]) and manifest["folder"] == str(rows.path)
    git = manifest["git"]
    assert git is None or len(git["commit"]) == 40
    assert git is None or git.get("patch") != "git.patch" or (run / "git.patch").read_text(encoding="utf-8").startswith("diff --git")


def test_rerun_on_the_same_device_is_the_same_to_the_last_bit(rows, monkeypatch, tmp_path_factory):
    assert rows.call(*TINY, "run.dir=first").status == 0
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    ended = rows.call("rerun", str(rows.path / "first"))
    assert ended.status == 0, ended.out + ended.err
    assert "the same device and driver: bits are compared" in ended.out and "NOT the same" not in ended.out
    assert f"in {rows.path}, where the run was started" in ended.out
    [second] = rows.runs("train")
    assert (rows.path / "first/model/model.safetensors").read_bytes() == (second / "model/model.safetensors").read_bytes()
    assert told(second)["stages"]["tokenize"]["cached"] is False


def test_rerun_that_differs_says_where_and_what_changed(rows):
    assert rows.call(*TINY, "run.dir=first").status == 0
    (rows.path / "rows.jsonl").write_text((rows.path / "rows.jsonl").read_text().replace("twice", "two times"), encoding="utf-8")
    ended = rows.call("rerun", "first")
    assert ended.status == 3 and "rerun of first: NOT the same" in ended.out
    assert "different  metrics.jsonl: from step 1" in ended.out and "changed since: data (" in ended.out


def test_another_device_is_compared_by_its_losses(rows):
    assert rows.call(*TINY, "run.dir=first").status == 0
    assert rows.call(*TINY, "run.dir=second").status == 0
    manifest = told(rows.path / "second")
    manifest["device"]["driver"] = "another"
    (rows.path / "second/run.json").write_text(json.dumps(manifest), encoding="utf-8")
    found = compare(rows.path / "first", rows.path / "second")
    assert found.passed and any("loss of 4 steps, largest difference 0.00e+00 (allowed 0.001)" in line for line in found.lines())
    metrics = rows.path / "second/metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"loss": ', '"loss": 1'), encoding="utf-8")
    assert not compare(rows.path / "first", rows.path / "second").passed


def test_rerun_on_another_driver_has_the_same_loss_and_on_the_first_one_the_same_bits(rows):
    """Where two drivers are present: VK_DRIVER_FILES=ONE.json:OTHER.json shows both to one process."""
    from hierarchos.vulkan import list_devices

    first = {device.driver: str(index) for index, device in reversed(list(enumerate(list_devices()))) if device.usable}
    if len(first) < 2:
        pytest.skip("only one driver is present")
    one, other = sorted(first.values())[:2]
    assert rows.call(*TINY, f"device={one}", "run.dir=first").status == 0
    again = rows.call("rerun", "first")
    assert again.status == 0 and "the same device and driver: bits are compared" in again.out and "every bit" in again.out
    elsewhere = rows.call("rerun", "first", f"device={other}")
    assert elsewhere.status == 0 and "another device or driver: losses are compared" in elsewhere.out
    assert "rerun of first: the same" in elsewhere.out and "loss of 4 steps, largest difference" in elsewhere.out


def test_run_of_another_version_says_which_setting_is_gone(place):
    assert place.call("fake", "run.dir=run").status == 0
    config = place.path / "run/config.yaml"
    config.write_text(config.read_text().replace("  steps:", "  stepps:"), encoding="utf-8")
    ended = place.call("rerun", "run")
    assert ended.status == 2 and "this version has no setting train.stepps" in ended.err and "did you mean  train.steps ?" in ended.err


def test_setting_that_is_newer_than_the_run_has_its_default(place):
    assert place.call("fake", "run.dir=run").status == 0
    config = place.path / "run/config.yaml"
    config.write_text("".join(line for line in config.read_text().splitlines(True) if "streaming" not in line), encoding="utf-8")
    ended = place.call("rerun", "run")
    assert ended.status == 0 and "note: data.streaming is newer than the run: False" in ended.out


def test_resume_needs_neither_pipeline_nor_directory(place):
    assert place.call("fake", "train.learning_rate=15").status == 130
    assert place.call("resume").status == 0
    [run] = place.runs()
    assert told(run)["status"] == "done"
    assert place.call("resume", str(run)).status == 0
    ended = place.call("resume")
    assert ended.status == 2 and ended.err.startswith("there is no unfinished run")


def test_resume_and_rerun_name_the_nearest_run(place):
    assert place.call("fake", "run.dir=outputs/fake/mine").status == 0
    for command in ("resume", "rerun", "crate"):
        ended = place.call(command, "outputs/fake/mina")
        assert ended.status == 2 and "did you mean  outputs/fake/mine ?" in ended.err


def test_crate_describes_the_run_for_archives(place):
    assert place.call("fake", "run.dir=run").status == 0
    assert place.call("crate", "run", "--zip").status == 0
    graph = json.loads((place.path / "run/ro-crate-metadata.json").read_text(encoding="utf-8"))["@graph"]
    entities = {one["@id"]: one for one in graph}
    assert entities["ro-crate-metadata.json"]["about"] == {"@id": "./"}
    assert entities["./"]["conformsTo"] == {"@id": "https://w3id.org/ro/wfrun/process/0.5"}
    action = entities[entities["./"]["mentions"]["@id"]]
    assert action["@type"] == "CreateAction" and action["actionStatus"] == "http://schema.org/CompletedActionStatus"
    assert all(datetime.fromisoformat(action[key]).utcoffset() is not None and action[key][-3] == ":" for key in ("startTime", "endTime"))
    assert all(entities[part["@id"]]["url"].startswith("https://") for part in entities["#hierarchos"]["softwareRequirements"])
    assert entities["./"]["license"]["@id"] in entities
    named = [part["@id"] for key in ("object", "result") for part in action[key]] + [part["@id"] for part in entities["./"]["hasPart"]]
    assert set(named) <= set(entities) and "config.yaml" in named
    assert "run.json" in zipfile.ZipFile(place.path / "run.crate.zip").namelist()
