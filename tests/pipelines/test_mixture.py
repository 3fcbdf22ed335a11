"""Several sources in one run: shares, keys, formats of their own, the Hub, and rows drawn through a buffer."""
from __future__ import annotations

import json

import pytest

from tests.bad_input.table import SIZE
from tests.hub.server import HubServer
from tests.pipelines.test_hub_runs import hub, package, run
from tests.pipelines.test_hub_runs import told as told_of

__all__ = ["hub", "package"]
MIXED = ("data.mix.notes.path=notes.jsonl", "data.mix.notes.weight=3", "data.mix.sums.path=sums.csv",
         "data.mix.sums.columns.completion=result")
ALL = ("train", *SIZE, *MIXED, "train.sequence_length=16", "pipeline.stages=[acquire,tokenize]", "run.dir=run")


@pytest.fixture
def rows(place):
    place.write("notes.jsonl", "".join(json.dumps({"text": f"note {n} is about {n * n}"}) + "\n" for n in range(60)))
    place.write("sums.csv", "prompt,result\n" + "".join(f"{n} and {n} make,{2 * n}\n" for n in range(60)))
    return place


def told(place) -> dict:
    return json.loads((place.path / "run/run.json").read_text(encoding="utf-8"))["stages"]["tokenize"]


def test_sources_of_two_formats_are_mixed_by_weight_and_kept(rows):
    ended = rows.call(*ALL)
    assert ended.status == 0, ended.err
    facts = told(rows)["facts"]
    shares = {name: share["tokens"] for name, share in facts["mix"].items()}
    assert facts["tokens"] == sum(shares.values()) and shares["notes"] / facts["tokens"] == pytest.approx(0.75, abs=0.03)
    assert facts["rows"]["rows"] == 120 and facts["validation_tokens"] > 0
    assert "tokenize: notes: " in ended.out and "% (1 of it)" in ended.out
    assert rows.call(*ALL, "run.dir=again").status == 0
    again = json.loads((rows.path / "again/run.json").read_text())["stages"]["tokenize"]
    assert again["cached"] is True and again["digest"] == told(rows)["digest"]


@pytest.mark.parametrize("changed", ["data.mix.sums.weight=2", "run.seed=1", "data.mix_until=all", "data.mix.notes.max_rows=30"])
def test_weights_seed_and_end_are_in_the_key(rows, changed):
    assert rows.call(*ALL).status == 0
    assert rows.call(*ALL, changed, "run.dir=again").status == 0
    again = json.loads((rows.path / "again/run.json").read_text())["stages"]["tokenize"]
    assert again["cached"] is False and again["digest"] != told(rows)["digest"]


def test_rows_of_the_hub_are_mixed_with_files_at_a_noted_commit(rows, hub: HubServer):
    status, _, err = run(rows, *ALL, "data.mix.web.repo=owner/rows", "data.mix.web.streaming=true", "data.mix.web.max_rows=20",
                         "data.mix.web.shuffle_buffer=10")
    assert status == 0, err
    stages = told_of(rows, "run")["stages"]
    assert stages["acquire"]["facts"]["mix"]["web"] == {"files": [], "data_commit": hub.repositories["datasets", "owner/rows"].refs["main"]}
    assert stages["tokenize"]["facts"]["rows"]["rows"] == 150
    assert any("web: data.max_rows=20 of the 30 rows" in notice for notice in stages["tokenize"]["facts"]["rows"]["notices"])


def test_buffer_alone_draws_other_rows_for_another_seed(rows):
    words = ("train", *SIZE, "data=jsonl", "data.path=notes.jsonl", "data.max_rows=20", "data.shuffle_buffer=20",
             "data.validation_fraction=0", "pipeline.stages=[acquire,tokenize]")
    digests = set()
    for number, seed in enumerate((0, 0, 1)):
        assert rows.call(*words, f"run.seed={seed}", "run.force=[tokenize]", f"run.dir=run{number}").status == 0
        digests.add(json.loads((rows.path / f"run{number}/run.json").read_text())["stages"]["tokenize"]["digest"])
    assert len(digests) == 2
