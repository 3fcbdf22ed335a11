"""What a run leaves behind: its directory, its manifest, its logs, its exit status."""
from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import yaml

from pipelines.run_directory import RunDirectory


def manifest(path) -> dict:
    return json.loads((path / "run.json").read_text(encoding="utf-8"))


def test_eight_runs_started_at_once_get_eight_directories(place):
    started = [place.start("fake", f"tokenizer.vocab_size={300 + n}") for n in range(8)]
    assert [process.wait() for process in started] == [0] * 8
    runs = place.runs()
    assert len(runs) == 8
    sizes = {yaml.safe_load((run / "config.yaml").read_text())["tokenizer"]["vocab_size"] for run in runs}
    assert sizes == set(range(300, 308))
    assert {manifest(run)["status"] for run in runs} == {"done"}


def test_run_directory_with_a_taken_name_gets_another(place, monkeypatch):
    names = iter(["aaaaaa", "aaaaaa", "bbbbbb"])
    monkeypatch.setattr("pipelines.run_directory.secrets.token_hex", lambda _: next(names))
    monkeypatch.setattr("pipelines.run_directory.time.strftime", lambda *_: "2026-01-02_030405")
    made = [RunDirectory.create(place.path, "fake", {}, {}, []).path.name for _ in range(2)]
    assert made == ["2026-01-02_030405_aaaaaa", "2026-01-02_030405_bbbbbb"]


def test_run_json_tells_what_is_needed_to_repeat_the_run(place):
    assert place.call("fake", "run.seed=7", "train.learning_rate=0.5").status == 0
    [run] = place.runs()
    told = manifest(run)
    assert told["status"] == "done" and told["pipeline"] == "fake" and told["seed"] == 7
    assert told["id"] == run.name and told["started"] <= told["ended"] and told["seconds"] >= 0
    assert set(told["hashes"]) == {"config", "data", "tokenizer", "shaders", "code"} and len(told["hashes"]["config"]) == 64
    assert {"hierarchos", "python", "numpy", "hydra-core"} <= set(told["versions"])
    assert told["stages"]["learn"]["facts"] == {"loss": 1.0, "words": 1024, "resumed": False}
    assert told["device"] is None and told["error"] is None
    assert (run / "overrides.txt").read_text() == "run.seed=7\ntrain.learning_rate=0.5\n"
    assert yaml.safe_load((run / "config.yaml").read_text())["train"]["learning_rate"] == 0.5
    assert (run / "stages/learn/log").exists() and (run / "stages/learn/key.json").exists()


def test_closing_table_names_stages_times_and_results(place):
    out = place.call("fake").out
    assert "stage  status  time  result" in out
    assert "learn  done" in out and "loss 0.002" in out
    assert f"everything about this run: outputs/fake/{place.runs()[0].name}" in out


def test_given_directory_is_never_written_over(place):
    assert place.call("fake", "run.dir=mine").status == 0
    before = (place.path / "mine/run.json").read_bytes()
    again = place.call("fake", "run.dir=mine")
    assert again.status == 2
    assert "mine is there already" in again.err and "try  run.resume=mine" in again.err
    assert (place.path / "mine/run.json").read_bytes() == before


def test_failed_stage_is_one_line_with_its_traceback_in_the_log(place):
    ended = place.call("fake", "train.learning_rate=13")
    [run] = place.runs()
    log = f"outputs/fake/{run.name}/stages/learn/log"
    assert ended.status == 3
    assert ended.err.splitlines() == ["ArithmeticError: the loss is not a number at step 7", f"  stopped in learn; log: {log}"]
    assert "Traceback" in (place.path / log).read_text()
    assert manifest(run)["status"] == "failed"
    assert manifest(run)["error"] == {"stage": "learn", "type": "ArithmeticError", "message": "the loss is not a number at step 7",
                                      "log": "stages/learn/log"}


def test_lost_device_has_a_status_of_its_own(place):
    place.write("configs/pipeline/lost.yaml", "pipeline:\n  name: lost\n  stages: [{_target_: tests.pipelines.fake_stages.Lost}]\n")
    ended = place.call("lost")
    assert ended.status == 4
    assert ended.err.startswith("the device was lost while running 'train step 3'") and "Traceback" not in ended.err


def test_interrupted_run_says_so_and_how_to_go_on(place):
    ended = place.call("fake", "train.learning_rate=15")
    assert ended.status == 130
    assert ended.err.strip() == "interrupted; to continue:  hierarchos fake run.resume=latest"
    assert manifest(place.runs()[0])["status"] == "interrupted"


def test_error_of_ours_is_one_line_and_a_file(place, monkeypatch):
    monkeypatch.setattr("pipelines.execute.prepare", lambda *_: {}["nothing"])
    ended = place.call("fake")
    first, second = ended.err.splitlines()
    assert ended.status == 3 and first == "KeyError: 'nothing'"
    assert "Traceback" in Path(second.rpartition(": ")[2]).read_text(encoding="utf-8")


def test_stage_that_cannot_be_made_is_told(place):
    ended = place.call("fake", "pipeline.stages=[{_target_: tests.pipelines.fake_stages.Wrods}]")
    assert ended.status == 2
    assert "the stage tests.pipelines.fake_stages.Wrods cannot be made" in ended.err and "Traceback" not in ended.err


def test_killed_run_is_resumed_in_its_directory(place):
    killed = place.start("fake", "train.learning_rate=14", "tokenizer.vocab_size=400")
    assert killed.wait() == -signal.SIGKILL
    [run] = place.runs()
    assert manifest(run)["status"] == "running"
    ended = place.call("fake", "run.resume=latest", "run.explain=true")
    assert ended.status == 0 and place.runs() == [run]
    told = manifest(run)
    assert told["status"] == "done" and told["resumed"][0]["from"] == "running"
    assert told["stages"]["learn"]["facts"] == {"loss": 28.0, "words": 400, "resumed": True}
    assert "words      cached: it was done before this run was interrupted" in ended.out


def test_resume_under_other_settings_asks_first(place):
    place.call("fake", "train.learning_rate=15", "train.epochs=9")
    changed = ["fake", "run.resume=latest", "train.epochs=15", "train.schedule.name=linear"]
    refused = place.call(*changed)
    assert refused.status == 2
    assert refused.err.splitlines()[0].startswith("the settings differ from those that outputs/fake/")
    assert "  train.epochs: 9.0 -> 15.0" in refused.err.splitlines()
    assert '  train.schedule.name: "cosine" -> "linear"' in refused.err.splitlines()
    assert manifest(place.runs()[0])["status"] == "interrupted"
    assert place.call(*changed, "run.allow_config_change=true").status == 0
    [run] = place.runs()
    assert yaml.safe_load((run / "config.yaml").read_text())["train"]["epochs"] == 15.0
    assert "run.resume" not in (run / "overrides.txt").read_text()


def test_finished_run_has_nothing_to_resume(place):
    place.call("fake")
    [run] = place.runs()
    ended = place.call("fake", f"run.resume={run}")
    assert ended.status == 0 and "is finished: nothing is left to do" in ended.out
    assert place.call("fake", "run.resume=latest").status == 2


def test_run_in_progress_is_not_resumed(place):
    place.call("fake", "train.learning_rate=15")
    [run] = place.runs()
    held = RunDirectory.reopen(run)
    with held.at_work():
        ended = place.call("fake", f"run.resume={run}")
    assert ended.status == 2 and "the run is still going on in another process" in ended.err


@pytest.mark.parametrize("words", [["--cfg"], ["--explain"], ["--dry-run"]])
def test_looking_creates_nothing(place, words):
    before = place.files()
    assert place.call("fake", *words).status == 0
    assert place.files() == before


def test_polite_kill_ends_a_run_as_interrupted(place):
    place.write("configs/pipeline/slow.yaml", "pipeline:\n  name: slow\n  stages: [{_target_: tests.pipelines.fake_stages.Slow}]\n")
    process = place.start("slow")
    while not (runs := place.runs("slow")) or not (runs[0] / "stages/slow/key.json").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 130
    assert manifest(runs[0])["status"] == "interrupted"


def test_prompt_with_line_ends_survives_a_resume(place):
    place.call("fake", "train.learning_rate=15", "prompt=a\nb \\n c")
    assert place.call("fake", "run.resume=latest").status == 0
    assert yaml.safe_load((place.runs()[0] / "config.yaml").read_text())["generate"]["prompt"] == "a\nb \\n c"
