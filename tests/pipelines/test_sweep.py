"""Sweeps: checked as a whole, failing one job at a time, continued by the same command."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import pytest
import yaml

from pipelines.sweeping.rows import read_rows
from tests.pipelines.conftest import ROOT

SWEEP = ["fake", "-m"]


def learned(place) -> list[str]:
    path = place.path / "outputs/learned.txt"
    return path.read_text().split() if path.exists() else []


def test_every_combination_runs_in_a_directory_of_its_own(place):
    ended = place.call(*SWEEP, "train.learning_rate=1,2", "tokenizer.vocab_size=300,400")
    assert ended.status == 0
    assert learned(place) == ["1.0", "1.0", "2.0", "2.0"] and len(place.runs()) == 4
    assert "4 jobs," in ended.out and "job  train.learning_rate  tokenizer.vocab_size  status  loss  run" in ended.out
    assert sorted(path.name for path in place.path.glob("outputs/sweeps/*/*")) == ["jobs", "sweep.json"]


def test_failing_job_is_one_line_with_its_traceback_in_its_log(place):
    ended = place.call(*SWEEP, "train.learning_rate=1,13,2")
    assert ended.status == 3 and ended.err == ""
    assert learned(place) == ["1.0", "2.0"]
    [line] = [line for line in ended.out.splitlines() if line.startswith("job 1 failed")]
    assert line.startswith("job 1 failed: ArithmeticError: the loss is not a number at step 7; log: outputs/fake/")
    assert "Traceback" in (place.path / line.rpartition("log: ")[2]).read_text()
    assert "failed: ArithmeticError: the loss is not a number at step 7" in ended.out.rpartition("3 jobs")[2]


def test_fail_fast_stops_at_the_failure(place):
    ended = place.call(*SWEEP, "--fail-fast", "train.learning_rate=1,13,2")
    assert ended.status == 3
    assert learned(place) == ["1.0"] and "2 jobs," in ended.out


def test_killed_sweep_is_continued_by_the_same_command(place):
    words = [*SWEEP, "train.learning_rate=1,14,2"]
    assert place.start(*words).wait() == -signal.SIGKILL
    assert learned(place) == ["1.0"]
    ended = place.call(*words)
    assert ended.status == 0
    assert learned(place) == ["1.0", "14.0", "2.0"]
    assert "done before, in outputs/fake/" in ended.out and "(continues outputs/fake/" in ended.out
    [rows] = [sorted(path.glob("*.json")) for path in place.path.glob("outputs/sweeps/*/jobs") if len(list(path.glob("*.json"))) == 3]
    assert [json.loads(row.read_text())["status"] for row in rows] == ["done before", "done", "done"]


def test_interrupted_sweep_says_how_to_go_on(place):
    ended = place.call(*SWEEP, "train.learning_rate=1,15,2")
    assert ended.status == 130
    assert ended.err.strip() == "interrupted; the same command again continues the sweep"
    assert learned(place) == ["1.0"]


def test_again_runs_finished_jobs_anew(place):
    place.call(*SWEEP, "train.learning_rate=1,2")
    place.call(*SWEEP, "train.learning_rate=1,2", "sweep.again=true")
    assert len(place.runs()) == 4


@pytest.mark.parametrize("word, message", [
    ("train.learning_rate=1,-2", "train.learning_rate must be above 0, not -2"),
    ("train.steps=1,many", 'train.steps takes a whole number (at least 1) or null, not "many"'),
    ("model=gpt2_tiny,gpt3_tiny", "model=gpt3_tiny is not there"),
    ("train.schedule.warmup=5,50", "train.schedule.warmup=50 is longer than train.steps=20"),
])
def test_wrong_value_of_one_job_stops_all_before_they_start(place, word, message):
    before = place.files()
    ended = place.call(*SWEEP, word, *(["train.steps=20"] if "warmup" in word else []))
    assert ended.status == 2 and ended.err.startswith(message)
    assert place.files() == before


def test_groups_and_quoted_texts_sweep(place):
    ended = place.call(*SWEEP, "model=llama_tiny,gpt2_tiny", "generate.prompt='a, b','c'")
    assert ended.status == 0 and len(place.runs()) == 4
    prompts = {json.loads((run / "run.json").read_text())["job"] for run in place.runs()}
    assert len(prompts) == 4


@pytest.mark.parametrize("word, message", [
    ("run.dir=mine", "run.dir cannot be used with -m"), ("run.resume=latest", "run.resume cannot be used with -m"),
    ("hydra/launcher=jolbib", "did you mean  hydra/launcher=joblib ?"),
])
def test_words_that_a_sweep_cannot_take_are_refused_before_it_starts(place, word, message):
    before = place.files()
    ended = place.call(*SWEEP, "train.learning_rate=1,2", word)
    assert ended.status == 2 and message in ended.err and "Traceback" not in ended.err
    assert place.files() == before


def test_looking_at_a_sweep_lists_its_jobs_and_creates_nothing(place):
    ended = place.call("train", "-m", "train.learning_rate=1e-3,3e-4", "model=gpt2_tiny", "--dry-run")
    assert ended.status == 0 and place.files() == []
    jobs = [line.split(" model=")[0] for line in ended.out.splitlines()]
    assert jobs == ["job 0: train.learning_rate=0.001", "job 1: train.learning_rate=0.0003"]


def rows(place) -> list[dict]:
    """The rows of the newest sweep."""
    newest = max(place.path.glob("outputs/sweeps/*"), key=lambda path: path.stat().st_mtime_ns)
    return read_rows(newest)


def test_sweep_of_24_jobs_that_is_killed_twice_ends_with_24_rows_and_no_job_run_twice(place):
    rates = [*range(1, 12), 14]                                              # 14 kills the process, once in each of two runs
    words = [*SWEEP, f"train.learning_rate={','.join(map(str, rates))}", "tokenizer.vocab_size=300,400"]
    assert [place.start(*words).wait() for _ in range(2)] == [-signal.SIGKILL] * 2
    ended = place.call(*words)
    assert ended.status == 0 and "24 jobs," in ended.out
    assert len(rows(place)) == 24 and {row["exit"] for row in rows(place)} == {0}
    assert sorted(map(float, learned(place))) == sorted([float(rate) for rate in rates] * 2) and len(place.runs()) == 24


def test_failed_job_is_tried_again_in_its_own_directory(place):
    assert place.call(*SWEEP, "train.learning_rate=1,16", "sweep.retries=1").status == 0
    assert [row["tries"] for row in rows(place)] == [1, 2] and len(place.runs()) == 2
    assert learned(place) == ["1.0", "16.0"]


def test_damaged_run_of_another_day_stops_no_sweep(place):
    place.write("outputs/fake/2026-01-01_000000_abcdef/run.json", '{"pipeline": "fa')
    assert place.call(*SWEEP, "train.learning_rate=1,2").status == 0
    assert place.call(*SWEEP, "train.learning_rate=1,2").status == 0 and {row["status"] for row in rows(place)} == {"done before"}


def test_retries_end(place):
    assert place.call(*SWEEP, "train.learning_rate=13,2", "sweep.retries=2").status == 3
    assert [(row["tries"], row["exit"]) for row in rows(place)] == [(3, 3), (1, 0)]


def test_settings_are_those_of_the_start(place, monkeypatch):
    from pipelines import sweep

    path = place.write("configs/experiment/mine.yaml", "train:\n  steps: 5\n")
    carried = sweep.run_job

    def change_the_file(*arguments):
        path.write_text("train:\n  steps: 6\n")
        return carried(*arguments)

    monkeypatch.setattr(sweep, "run_job", change_the_file)
    assert place.call(*SWEEP, "experiment=mine", "train.learning_rate=1,2").status == 0
    assert ["steps: 5" in (run / "config.yaml").read_text() for run in place.runs()] == [True, True]


def test_ranges_and_globs_sweep(place):
    ended = place.call("train", "-m", "model=glob(qwen*_tiny)", "train.steps=range(1,3)", "--dry-run")
    assert [line.split(" ")[2:4] for line in ended.out.splitlines()] == [
        ["model=qwen2_tiny", "train.steps=1"], ["model=qwen2_tiny", "train.steps=2"],
        ["model=qwen3_tiny", "train.steps=1"], ["model=qwen3_tiny", "train.steps=2"]]


def test_jobs_are_spread_over_devices_in_processes_of_their_own(place, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    words = [*SWEEP, "train.learning_rate=1,13,14,2", "sweep.devices=[0,llvmpipe]", "sweep.retries=1"]
    ended = place.call(*words)
    assert ended.status == 3 and "job 2: its process was killed; it is started again" in ended.out
    assert [row["exit"] for row in rows(place)] == [0, 3, 0, 0] and sorted(learned(place)) == ["1.0", "14.0", "2.0"]
    devices = {yaml.safe_load((run / "config.yaml").read_text())["device"]["select"] for run in place.runs()}
    assert devices == {"0", "llvmpipe"}
    [log] = place.path.glob("outputs/sweeps/*/jobs/0001.log")
    assert "job 1 failed: ArithmeticError: the loss is not a number at step 7" in log.read_text()
    again = place.call(*[word for word in words if "devices" not in word])
    assert next(row["status"] for row in rows(place)) == "done before" and again.status == 3


def test_job_that_others_stop_is_started_again(place, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ended = place.call(*SWEEP, "train.learning_rate=1,15", "sweep.jobs_per_device=2", "sweep.retries=1")
    assert ended.status == 0 and "job 1: it was stopped from outside; it is started again" in ended.out, ended.out + ended.err
    assert learned(place) == ["1.0", "15.0"] and len(place.runs()) == 2 and [row["exit"] for row in rows(place)] == [0, 0]


def start_200() -> None:
    """In a process without other threads (Ray's, after its tests): those would not survive a fork."""
    from pipelines import execute, manifest
    from pipelines.progress import Progress
    from pipelines.settings.folders import Folders

    manifest.git_state = lambda folder: None                                     # two hundred times git takes a minute
    jobs = execute.prepare("fake", [], Folders.find(), Progress(out=StringIO()))
    execute.run(jobs)                                                            # everything is imported before the processes part
    children = []
    for number in range(200):
        if (child := os.fork()) == 0:
            train = replace(jobs.config.train, steps=number + 1)
            execute.run(replace(jobs, config=replace(jobs.config, train=train)))
            os._exit(0)
        children.append(child)
    assert {os.waitpid(child, 0)[1] for child in children} == {0}


def test_200_starts_in_the_same_second_make_200_directories(place):
    command = "from tests.pipelines.test_sweep import start_200; start_200()"
    done = subprocess.run([sys.executable, "-c", command], cwd=place.path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = [json.loads((run / "run.json").read_text())["status"] for run in place.runs()]
    assert told == ["done"] * 201
    assert len({yaml.safe_load((run / "config.yaml").read_text())["train"]["steps"] for run in place.runs()}) == 201
