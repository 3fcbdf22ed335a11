"""Stages run again exactly when something that decides their result has changed, and say what."""
from __future__ import annotations

import json

import pytest

from pipelines.cache import StageCache


def explained(place, *words) -> list[str]:
    return place.call("fake", "--explain", *words).out.splitlines()


def test_first_run_and_second_run(place):
    assert explained(place) == ["words      runs: it has not run before", "learn      runs: its key is known once words has run"]
    place.call("fake")
    assert explained(place) == ["words      cached: settings, code and inputs are those of an earlier run",
                                "learn      runs: its result is never kept in the cache"]
    place.call("fake")
    assert [json.loads((run / "run.json").read_text())["stages"]["words"]["cached"] for run in place.runs()].count(True) == 1


def test_changed_setting_is_named(place):
    place.call("fake")
    assert explained(place, "tokenizer.vocab_size=300")[0] == "words      runs: changed: settings.tokenizer.vocab_size: 1024 -> 300"


def test_setting_of_another_stage_changes_nothing(place):
    place.call("fake")
    assert explained(place, "train.learning_rate=0.5", "run.outputs=outputs", "export.max_shard_mb=7")[0].startswith("words      cached")


def test_changed_code_is_named(place, monkeypatch):
    place.call("fake")
    monkeypatch.setattr("pipelines.stages.base.hash_source", lambda *_: "other")
    assert explained(place)[0].startswith("words      runs: changed: code: ")


def test_forced_stage_runs(place):
    place.call("fake")
    assert explained(place, "run.force=words")[0] == "words      runs: it was asked for (--force, --from or --only)"


def test_key_has_no_paths_and_no_times(place):
    place.call("fake")
    place.call("fake", "run.outputs=elsewhere")
    keys = [next(place.path.glob(f"{name}/cache/words/*")).name for name in ("outputs", "elsewhere")]
    assert keys[0] == keys[1]


def test_failed_stage_leaves_no_entry(tmp_path):
    cache = StageCache(tmp_path)

    def write(folder):
        (folder / "half").write_text("x")
        raise OSError("disk full")

    with pytest.raises(OSError):
        cache.make("words", {"a": 1}, write)
    assert cache.find("words", {"a": 1}) is None
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_half_written_entry_is_replaced(tmp_path):
    cache = StageCache(tmp_path)
    (cache.entry("words", {"a": 1}) / "files").mkdir(parents=True)
    assert cache.find("words", {"a": 1}) is None
    made = cache.make("words", {"a": 1}, lambda folder: {"n": (folder / "x").write_text("x")})
    assert made.facts == {"n": 1} and cache.find("words", {"a": 1}) == made


def test_equal_content_has_an_equal_digest(tmp_path):
    cache = StageCache(tmp_path)
    digests = [cache.make("words", {"a": n}, lambda folder: {"n": (folder / "x").write_text("same")}).digest for n in range(2)]
    assert digests[0] == digests[1]
