"""Sweeps: checked as a whole, failing one job at a time, continued by the same command."""
from __future__ import annotations

import json
import signal

import pytest

SWEEP = ["fake", "-m"]


def learned(place) -> list[str]:
    path = place.path / "outputs/learned.txt"
    return path.read_text().split() if path.exists() else []


def test_every_combination_runs_in_a_directory_of_its_own(place):
    ended = place.call(*SWEEP, "train.learning_rate=1,2", "tokenizer.vocab_size=300,400")
    assert ended.status == 0
    assert learned(place) == ["1.0", "1.0", "2.0", "2.0"] and len(place.runs()) == 4
    assert "4 jobs," in ended.out and "job  train.learning_rate  tokenizer.vocab_size  status  loss  run" in ended.out
    assert sorted(path.name for path in place.path.glob("outputs/sweeps/*/*")) == ["jobs", "multirun.yaml"]


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
