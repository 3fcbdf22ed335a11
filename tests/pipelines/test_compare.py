"""`hierarchos compare`: what differs, what is best, seeds together."""
from __future__ import annotations

import csv
import io
import json

import pytest

SWEEP = ("fake", "-m")


def sweep_of(place):
    [folder] = place.path.glob("outputs/sweeps/*")
    return folder.relative_to(place.path)


def test_only_settings_that_differ_are_told_and_the_best_is_bold(place):
    assert place.call("fake", "train.learning_rate=1", "run.dir=a").status == 0
    assert place.call("fake", "train.learning_rate=2", "run.dir=b").status == 0
    ended = place.call("compare", "a", "b")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in ended.out.splitlines()]
    assert ended.status == 0 and lines[0] == ["train.learning_rate", "status", "loss", "seconds", "run"]
    assert [line[:3] + line[4:] for line in lines[2:]] == [["1.0", "done", "**2**", "a"], ["2.0", "done", "4", "b"]]


def test_seeds_are_one_line_with_mean_and_spread(place):
    assert place.call(*SWEEP, "train.learning_rate=1,3", "run.seed=0,1,2").status == 0
    ended = place.call("compare", str(sweep_of(place)), "--json")
    told = json.loads(ended.out)
    assert told["keys"] == ["train.learning_rate"] and [line["seeds"] for line in told["lines"]] == [[0, 1, 2]] * 2
    assert told["lines"][0]["figures"]["loss"] == {"mean": 2.0, "spread": 0.0, "count": 3} and told["lines"][0]["best"] == ["loss"]
    text = place.call("compare", str(sweep_of(place))).out
    assert "**2 ± 0**" in text and "0, 1, 2" in text and "and 2 more" in text


def test_csv_has_a_row_for_each_run(place):
    assert place.call(*SWEEP, "train.learning_rate=1,3", "run.seed=0,1").status == 0
    rows = list(csv.DictReader(io.StringIO(place.call("compare", str(sweep_of(place)), "--csv").out)))
    assert [(row["train.learning_rate"], row["run.seed"], row["loss"]) for row in rows] == [
        ("1.0", "0", "2.0"), ("1.0", "1", "2.0"), ("3.0", "0", "6.0"), ("3.0", "1", "6.0")]


def test_swept_file_stands_for_what_it_holds(place):
    assert place.call(*SWEEP, "model=llama_tiny,gpt2_tiny").status == 0
    assert json.loads(place.call("compare", str(sweep_of(place)), "--json").out)["keys"] == ["model"]


def test_sweep_is_read_from_another_folder_and_with_a_failed_job(place, monkeypatch, tmp_path_factory):
    assert place.call(*SWEEP, "train.learning_rate=1,13,2").status == 3
    folder = place.path / sweep_of(place)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    told = json.loads(place.call("compare", str(folder), "--json").out)
    assert [line["runs"][0]["status"] for line in told["lines"]] == ["done", "failed", "done"]
    assert "loss" not in told["lines"][1]["figures"]


def test_folder_stands_for_its_runs(place):
    assert place.call(*SWEEP, "train.learning_rate=1,2").status == 0
    assert len(json.loads(place.call("compare", "outputs/fake", "--json").out)["lines"]) == 2


@pytest.mark.parametrize("words, message", [
    ([], "which runs?                                command line\n  two runs or more, a sweep, or a folder of runs\n"
         "  try  hierarchos compare outputs/sweeps/DATE_TIME_ID\n"),
    (["mine"], "mine is one run; a comparison needs two    command line\n"),
    (["mina"], "mina is neither a run nor a sweep          command line\n  did you mean  mine ?\n"),
    (["configs"], "configs holds no runs                      command line\n  a run directory has a run.json, a sweep a folder jobs\n"),
    (["mine", "--cvs"], "--cvs is not understood                    command line\n  did you mean  --csv ?\n  it takes --csv, --json\n"
                        "  nothing was started\n"),
    (["mine", "--csv", "--json"], "--csv and --json exclude each other        command line\n"),
])
def test_wrong_words(place, words, message):
    assert place.call("fake", "run.dir=mine").status == 0
    ended = place.call("compare", *words)
    assert (ended.status, ended.err) == (2, message)
