"""The README.md of an exported package says what run.json knows, and nothing that belongs to a machine."""
from __future__ import annotations

import json

import yaml

from pipelines.reading.model_card import model_card
from tests.bad_input.table import SHORT, SIZE


def rows(place) -> None:
    place.write("my rows/rows.jsonl", "".join(json.dumps({"text": f"{n} and {n} make {n + n}."}) + "\n" for n in range(40)))


def test_card_of_a_package_is_the_record_of_its_run(place):
    rows(place)
    words = ("train", *SIZE, *SHORT, "data=jsonl", "data.path='my rows/rows.jsonl'", "data.validation_fraction=0.3",
             "pipeline.stages=[acquire,tokenize,train,export]")
    cards = []
    for name in ("one", "two"):
        assert place.call(*words, f"run.dir={name}").status == 0
        cards.append((place.path / name / "model/README.md").read_text(encoding="utf-8"))
    assert cards[0] == cards[1]                                     # no time, no folder
    front = yaml.safe_load(cards[0].split("---\n")[1])
    assert front == {"library_name": "transformers", "tags": ["hierarchos"], "pipeline_tag": "text-generation"}
    assert "# gpt2, trained from nothing" in cards[0] and "| rows from | rows.jsonl |" in cards[0] and "| steps | 4 |" in cards[0]
    assert str(place.path) not in cards[0] and "my rows" not in cards[0]
    told = json.loads((place.path / "one/run.json").read_text())
    assert told["hashes"]["data"] in cards[0] and f"{told['stages']['train']['facts']['best_loss']:.4f} (step" in cards[0]
    settings = yaml.safe_load(cards[0].split("```yaml\n")[1].split("```")[0])
    assert settings["train"]["steps"] == 4 and settings["data"]["path"] == "rows.jsonl" and "run" not in settings


def test_card_of_an_adapter_names_its_base_on_the_hub(place):
    from dataclasses import replace

    from pipelines.config import Config

    config = Config()
    config = replace(config, model=replace(config.model, source="hub", repo="owner/base"), peft=replace(config.peft, method="lora"))
    card = model_card(config, {"stages": {"acquire": {"facts": {"commit": "c" * 40}}}}, True, {"architectures": ["LlamaForCausalLM"]})
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["library_name"] == "peft" and front["base_model"] == "owner/base"
    assert "# lora adapter for owner/base" in card and f"| base model's commit | {'c' * 40} |" in card and "peft.path=FOLDER" in card
