"""Running parts of a pipeline: --until, --from, --only, --force."""
from __future__ import annotations

import json

import pytest

STAGES = """# hierarchos chain
pipeline:
  name: chain
  stages:
    - {_target_: tests.pipelines.fake_stages.Words}
    - {_target_: tests.pipelines.fake_stages.Learn}
    - {_target_: tests.pipelines.fake_stages.Tell}
"""


@pytest.fixture
def chain(place):
    place.write("configs/pipeline/chain.yaml", STAGES)
    return place


def stages(run) -> dict:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))["stages"]


def learned(place) -> int:
    return len((place.path / "outputs/learned.txt").read_text().split())


def test_until_ends_after_a_stage(chain):
    assert chain.call("chain", "--until", "learn").status == 0
    assert list(stages(chain.runs("chain")[0])) == ["words", "learn"]


def test_from_runs_later_stages_again_in_the_same_run(chain):
    assert chain.call("chain").status == 0
    ended = chain.call("chain", "--from", "tell", "generate.prompt=again")
    assert ended.status == 0, ended.err
    [run] = chain.runs("chain")
    assert learned(chain) == 1 and stages(run)["tell"]["facts"]["told"] == "again"


def test_from_runs_an_earlier_stage_too_where_its_settings_changed(chain):
    assert chain.call("chain").status == 0
    assert chain.call("chain", "--from=tell", "train.learning_rate=3").status == 0
    assert learned(chain) == 2


def test_only_runs_one_stage_and_marks_what_came_after_as_outdated(chain):
    assert chain.call("chain").status == 0
    assert "learn      runs: it was asked for" in chain.call("chain", "--only", "learn", "--explain").out
    assert chain.call("chain", "--only", "learn").status == 0
    [run] = chain.runs("chain")
    assert learned(chain) == 2 and {name: one["status"] for name, one in stages(run).items()} == {
        "words": "done", "learn": "done", "tell": "outdated"}
    assert chain.call("chain", "--from", "tell").status == 0
    assert stages(run)["tell"]["status"] == "done" and learned(chain) == 2


def test_force_runs_what_is_kept(chain):
    chain.call("chain")
    assert chain.call("chain", "--force", "words", "--explain").out.splitlines()[0].startswith("words      runs: it was asked for")
    assert chain.call("chain", "--force", "all").status == 0


@pytest.mark.parametrize("words, message", [
    (("--until", "lern"), "lern is not a stage of this pipeline"), (("--from",), "--from needs the name of a stage"),
    (("--from", "tell"), "there is no run of chain to begin in"),
])
def test_wrong_words_are_told(chain, words, message):
    ended = chain.call("chain", *words)
    assert ended.status == 2 and ended.err.startswith(message) and chain.files() == []
