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


def test_card_of_a_package_names_every_source_with_its_weight(rows, tmp_path):
    words = [word for word in ALL if "pipeline.stages" not in word and "notes.path" not in word]
    ended = rows.call(*words, f"data.mix.notes.path={tmp_path}/notes.jsonl", "data.mix.plays.source=corpus", "data.mix.plays.max_rows=1",
                      "train.steps=1", "train.batch_size=2", "pipeline.stages=[acquire,tokenize,train,export]")
    assert ended.status == 0, ended.err
    card = (rows.path / "run/model/README.md").read_text(encoding="utf-8")
    for line in ("| rows of notes | notes.jsonl, weight 3, ", "| rows of sums | sums.csv, weight 1, ",
                 "| rows of plays | the corpus that ships with hierarchos, weight 1, "):
        assert line in card and card.partition(line)[2].partition("\n")[0].endswith("% of the tokens |"), card
    assert str(tmp_path) not in card


def test_card_names_the_data_sets_of_a_mixture_for_the_hub():
    from dataclasses import replace

    from pipelines.config import Config
    from pipelines.reading.model_card import model_card

    config, mix = Config(), {"a": {"repo": "owner/a"}, "b": {"repo": "owner/b", "weight": 2}, "c": {"path": ["x/y.jsonl", "z.jsonl"]}}
    card = model_card(replace(config, data=replace(config.data, mix=mix)),
                      {"stages": {"acquire": {"facts": {"mix": {"a": {"data_commit": "c" * 40}}}}}}, False, {})
    assert "datasets:\n- owner/a\n- owner/b\n" in card and "| rows of b | owner/b, weight 2 |" in card
    assert f"| rows of a | owner/a, weight 1, commit {'c' * 40} |" in card and "| rows of c | y.jsonl, z.jsonl, weight 1 |" in card


def test_buffer_alone_draws_other_rows_for_another_seed(rows):
    words = ("train", *SIZE, "data=jsonl", "data.path=notes.jsonl", "data.max_rows=20", "data.shuffle_buffer=20",
             "data.validation_fraction=0", "pipeline.stages=[acquire,tokenize]")
    digests = set()
    for number, seed in enumerate((0, 0, 1)):
        assert rows.call(*words, f"run.seed={seed}", "run.force=[tokenize]", f"run.dir=run{number}").status == 0
        digests.add(json.loads((rows.path / f"run{number}/run.json").read_text())["stages"]["tokenize"]["digest"])
    assert len(digests) == 2
