"""How files become settings: what the short way through Hydra gives is what Hydra gives."""
from __future__ import annotations

import pytest
from hydra.types import RunMode
from omegaconf import OmegaConf

from pipelines.settings import compose as composing
from pipelines.settings.folders import Folders


@pytest.mark.parametrize("pipeline, words", [
    ("train", []),
    ("train", ["experiment=seeds_and_models", "model=qwen3_tiny", "train.steps=7", "+train.learning_rate=1e-4"]),
    ("finetune", ["experiment=mixed_sources", "model.path=FOLDER", "data.mix.notes={path: a.jsonl, weight: 2}"]),
    ("generate", ["model.path=FOLDER", "prompt=[a, 'b # c']", "peft=lora", "peft.rank=4"]),
])
def test_composition_without_hydras_own_node_is_hydras_composition(place, pipeline, words):
    request = composing.check_request(pipeline, words, Folders.find())
    whole = composing.load(composing.hydra_for(request.folders), request.all_overrides, RunMode.RUN)
    short = composing.compose_settings(composing.hydra_for(request.folders).config_loader, composing.ROOT, request.all_overrides)
    assert OmegaConf.to_container(short) == OmegaConf.to_container(composing.without_hydra(whole))


def test_file_that_names_a_launcher_of_hydra_is_checked_for_it(place):
    place.write("configs/experiment/mine.yaml", "defaults:\n  - override /hydra/launcher: jolbib\ntrain:\n  steps: 5\n")
    ended = place.call("check", "configs/experiment/mine.yaml")
    assert ended.status == 2 and "there is no hydra/launcher=jolbib" in ended.err


def test_merged_mapping_may_be_overridden_but_no_key_is_given_twice(place):
    text = "data:\n  mix:\n    a: &a\n      source: corpus\n      weight: 1\n    b:\n      <<: *a\n      weight: 2\n"
    place.write("configs/experiment/mine.yaml", text)
    assert "weight: 2" in place.call("config", "train", "experiment=mine").out
    place.write("configs/experiment/mine.yaml", text + "      weight: 3\n")
    ended = place.call("check", "configs/experiment/mine.yaml")
    assert ended.status == 2 and "weight is given twice" in ended.err and "mine.yaml:9" in ended.err
