"""Searching with Optuna: drawn values, a study that goes on, jobs that end early, a process that is killed."""
from __future__ import annotations

import json
import math
import os
import re
import signal

import pytest

from pipelines.stages.base import BaseStage
from pipelines.sweeping.rows import read_rows

PIPELINE = "# hierarchos curve\npipeline:\n  name: curve\n  stages:\n    - {_target_: tests.pipelines.test_search.Curve}\n"
RATE = "train.learning_rate=tag(log,interval(1e-5,1e-1))"
SEARCH = ("curve", "-m", "search=optuna", RATE, "search.startup=2")


class Curve(BaseStage):
    """Loss is lowest at a rate of 0.001; the fourth run kills its process the first time."""

    name = "curve"
    groups = ("train",)

    def run(self, context):
        rate, told = context.config.train.learning_rate, context.folder / "told"
        outputs = context.run.path.parents[1]
        if (outputs.parent / "kill").exists() and len(list(outputs.glob("curve/*"))) == 4 and not told.exists():
            told.write_text("", encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        away = abs(math.log10(rate) + 3)
        for step in (1, 2, 3, 4):
            if context.watch is not None:
                context.watch(step, away + 1 / step)
        return {"validation_loss": away, "resumed": context.resuming}


@pytest.fixture
def curve(place):
    pytest.importorskip("optuna")
    place.write("configs/pipeline/curve.yaml", PIPELINE)
    return place


def rows(place) -> list[dict]:
    return read_rows(max(place.path.glob("outputs/sweeps/*"), key=lambda path: path.stat().st_mtime_ns))


def test_search_draws_ends_early_and_goes_on_where_it_was(curve):
    ended = curve.call(*SEARCH, "search.trials=6")
    assert ended.status == 0, ended.out + ended.err
    first = rows(curve)
    rates = [float(row["overrides"][-1].partition("=")[2]) for row in first]
    assert len(set(rates)) == 6 and all(1e-5 <= rate <= 1e-1 for rate in rates)
    ended = curve.call(*SEARCH, "search.trials=14")
    assert "6 of 14 trials are done" in ended.out and len(rows(curve)) == 8 and "best: learning_rate" not in ended.err
    statuses = [row["status"] for row in first + rows(curve)]
    assert set(statuses) == {"done", "ended early"}
    pruned = [json.loads((run / "run.json").read_text())["status"] for run in curve.runs("curve")].count("pruned")
    assert pruned == statuses.count("ended early") > 0
    best = next(line for line in ended.out.splitlines() if line.startswith("best: train.learning_rate="))
    assert "validation loss" in best and "outputs/curve/" in best
    assert curve.call(*SEARCH, "search.trials=14").status == 0 and len(curve.runs("curve")) == 14
    assert curve.call("report", str(max(curve.path.glob("outputs/sweeps/*"), key=lambda path: len(list(path.glob("jobs/*")))))).status == 0


def test_killed_search_tries_its_values_again_in_the_same_directory(curve):
    (curve.path / "kill").write_text("", encoding="utf-8")
    words = (*SEARCH, "search.trials=6", "search.pruner=none")
    assert curve.start(*words).wait() == -signal.SIGKILL
    ended = curve.call(*words)
    assert ended.status == 0 and "job 3 was interrupted; its values are tried again" in ended.out
    continued = re.search(r"\(continues outputs/curve/([^)\s]+)", ended.out)
    runs = [json.loads((run / "run.json").read_text()) for run in curve.runs("curve")]
    assert len(runs) == 6 and {run["status"] for run in runs} == {"done"}
    assert [run["id"] for run in runs if run["stages"]["curve"]["facts"]["resumed"]] == [continued[1]]


def test_whole_numbers_and_choices_are_drawn(curve):
    ended = curve.call("curve", "-m", "search=optuna", "train.batch_size=interval(2,9)", "model=llama_tiny,gpt2_tiny",
                       "train.schedule.name=linear,cosine", "search.trials=4", "search.sampler=random")
    assert ended.status == 0, ended.out + ended.err
    drawn = [dict(word.split("=") for word in row["overrides"] if not word.startswith("search")) for row in rows(curve)]
    assert all(2 <= int(one["train.batch_size"]) <= 9 and one["model"] in ("llama_tiny", "gpt2_tiny") for one in drawn)


@pytest.mark.parametrize("words, message", [
    (["train.learning_rate=interval(1e-4,1e-2)"], "train.learning_rate has an interval, from which only a search can draw"),
    (["search=optuna", "train.learning_rate=interval(-1,1e-2)"], "train.learning_rate must be above 0, not -1"),
    (["search=optuna", "train.learning_rate=interval(1e-4,1e-2)", "sweep.jobs_per_device=2"], "a search runs one job at a time"),
    (["search=optna", "train.learning_rate=1,2"], "search=optna is not there"),
])
def test_what_cannot_be_searched_is_told_before_anything_starts(curve, words, message):
    before = curve.files()
    ended = curve.call("curve", "-m", *words)
    assert ended.status == 2 and ended.err.startswith(message) and "nothing was started" in ended.err and curve.files() == before


def test_missing_optuna_says_what_to_install(curve, monkeypatch):
    monkeypatch.setattr("pipelines.sweeping.search.find_spec", lambda package: None)
    ended = curve.call(*SEARCH)
    assert (ended.status, ended.err) == (2, "search=optuna needs optuna, which is not installed\n  search.name\n"
                                            "  try  pip install optuna                  nothing was started\n")
