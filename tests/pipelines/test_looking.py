"""What can be asked without running anything: settings with their origins, JSON Schema, completion, and how files compose."""
from __future__ import annotations

import json

import pytest
import yaml

from hierarchos.resources import resource
from pipelines.commands.schema import LINE, editor_line
from pipelines.complete import candidates
from pipelines.main import COMMANDS
from pipelines.settings.folders import Folders
from pipelines.settings.json_schema import files

MINE = "# hierarchos train experiment=mine\ntrain:\n  steps: 50\n  batch_size: 4\nmodel:\n  config:\n    n_layer: 3\n"


def values(place, *words: str) -> dict:
    ended = place.call("config", *words)
    assert ended.status == 0, ended.err
    return yaml.safe_load(ended.out)


def origins(place, *words: str) -> dict[str, str]:
    """The last word of each key, where it stands first -> where its value comes from."""
    lines = place.call("config", *words, "--provenance").out.splitlines()
    return {line.split(":")[0].strip(): line.rpartition(" # ")[2] for line in reversed(lines) if " # " in line}


def test_every_value_says_where_it_comes_from(place):
    place.write("configs/experiment/mine.yaml", MINE)
    found = origins(place, "train", "model=gpt2_tiny", "experiment=mine", "train.learning_rate=1e-3")
    assert found["steps"] == "configs/experiment/mine.yaml:3" and found["batch_size"] == "configs/experiment/mine.yaml:4"
    assert found["n_layer"] == "configs/experiment/mine.yaml:7" and found["learning_rate"] == "command line"
    assert found["n_embd"].endswith("configs/model/gpt2_tiny.yaml:7") and found["accumulation"] == "default"


def test_printed_settings_are_an_experiment_that_gives_the_same(place):
    place.write("configs/experiment/mine.yaml", MINE)
    first = values(place, "train", "model=gpt2_tiny", "experiment=mine")
    place.write("configs/experiment/whole.yaml", yaml.safe_dump(first))
    assert values(place, "train", "model=gpt2_tiny", "experiment=whole") == first


@pytest.mark.parametrize("word", ["train.batch_size=8", "train.steps=null", "train.learning_rate=1e-3"])
def test_what_was_typed_wins_over_files_even_when_it_is_the_default(place, word):
    place.write("configs/experiment/mine.yaml", MINE.replace("batch_size: 4", "batch_size: 4\n  learning_rate: 0.5"))
    key, _, text = word.partition("=")
    assert values(place, "train", "experiment=mine", word)["train"][key.partition(".")[2]] == yaml.safe_load(text.replace("1e-3", "0.001"))


def test_group_and_its_keys_work_in_either_order(place):
    words = ["model=gpt2_tiny", "model.config.n_layer=5"]
    assert values(place, "train", *words) == values(place, "train", *reversed(words))
    assert values(place, "train", *words)["model"]["config"]["n_layer"] == 5


def test_plus_and_no_plus_are_the_same(place):
    plain = values(place, "train", "train.steps=7", "experiment=quick", "model.config.extra=1")
    assert values(place, "train", "+train.steps=7", "+experiment=quick", "++model.config.extra=1") == plain


def test_one_file_serves_every_pipeline(place):
    place.write("configs/experiment/mine.yaml", MINE + "generate:\n  prompt: hello\n")
    for pipeline in ("train", "finetune", "evaluate", "generate"):
        found = values(place, pipeline, "experiment=mine", "model=gpt2_tiny")
        assert (found["pipeline"]["name"], found["train"]["steps"], found["generate"]["prompt"]) == (pipeline, 50, "hello")


def test_own_defaults_of_a_machine_apply_by_themselves_and_lose_against_experiments(place):
    place.write("configs/local/default.yaml", "train:\n  steps: 9\n  batch_size: 2\n")
    assert values(place, "train")["train"]["batch_size"] == 2
    assert values(place, "train", "experiment=quick")["train"]["steps"] == 50


def test_shipped_schemas_and_editor_lines_are_those_of_the_dataclasses():
    configs = resource("configs")
    for name, schema in files(Folders((configs,))).items():
        assert json.loads((configs / "schema" / name).read_text(encoding="utf-8")) == schema, "run: hierarchos schema --write"
    for path in configs.rglob("*.yaml"):
        line = editor_line(path.relative_to(configs).with_suffix("").as_posix())
        assert line in path.read_text(encoding="utf-8").splitlines(), f"{path}: run: hierarchos schema --write"
        assert (path.parent / line.removeprefix(LINE)).is_file()


def test_schema_is_printed_by_group(place):
    found = json.loads(place.call("schema", "train").out)
    assert found["properties"]["steps"]["anyOf"][0] == {"type": ["integer", "null"], "minimum": 1}
    assert found["properties"]["optimizer"]["properties"]["name"]["anyOf"][0]["enum"][0] == "adamw"
    assert "did you mean  train ?" in place.call("schema", "trian").err


def test_schemas_are_written_for_own_files(place):
    place.write("configs/experiment/mine.yaml", MINE)
    assert place.call("schema", "--write").status == 0
    assert "# yaml-language-server: $schema=../schema/hierarchos.json\ntrain:" in (place.path / "configs/experiment/mine.yaml").read_text()
    assert place.call("train", "experiment=mine", "model=gpt2_tiny", "--cfg").status == 0


@pytest.mark.parametrize("words, found", [
    (("", ""), "train"), (("tr", "tr"), "train"), (("train", "model=ll"), "model=llama_tiny"), (("train", "train.ste"), "train.steps="),
    (("train", "train.opt"), "train.optimizer."), (("train", "data.format=c"), "data.format=csv"), (("train", "--ex"), "--explain"),
    (("train", "train.shuffle="), "train.shuffle=false"), (("train", "run.resume="), "run.resume=latest"),
    (("completion", ""), "bash"), (("schema", "tr"), "train"), (("config", "train.ste"), "train.steps="),
    (("fake", "train.ste"), "train.steps="), (("plan", "fine"), "finetune"), (("plan", "model=ll"), "model=llama_tiny"),
    (("chat", "model.pa"), "model.path="), (("rerun", "outputs/fa"), "outputs/fake/mine"), (("compare", ""), "outputs/fake/mine"),
])
def test_words_are_completed(place, words, found):
    place.write("outputs/fake/mine/run.json", "{}")
    assert found in candidates(*words, COMMANDS)


def test_files_that_are_read_once_for_many_compositions_do_not_leak_into_each_other(place):
    from pipelines.settings.compose import check_request, compose
    from pipelines.settings.many import many

    place.write("configs/experiment/a.yaml", "defaults:\n  - override /model: hub\nmodel:\n  repo: owner/name\ntrain:\n  steps: 3\n")
    place.write("configs/experiment/b.yaml", "train:\n  batch_size: 2\n")
    folders = Folders.find()

    def composed(name: str) -> object:
        return compose(check_request("train", [f"experiment={name}"], folders))

    alone = composed("b")
    with many(folders):
        composed("a")
        assert composed("b") == alone and composed("a").model.repo == "owner/name"


def test_check_names_every_wrong_file_and_its_place(place):
    place.write("configs/experiment/good.yaml", "train:\n  steps: 5\n")
    place.write("configs/experiment/bad.yaml", "train:\n  stepps: 5\n")
    ended = place.call("check")
    assert ended.status == 2 and "configs/experiment/bad.yaml:2" in ended.err and "1 wrong" in ended.out
    assert "hierarchos train experiment=good: fine" in ended.out
