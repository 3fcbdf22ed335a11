"""The presets configs/model/<family>_tiny.yaml: small models to train from nothing.

`python -m validation.presets` trains all of them for some steps."""

import pytest
from omegaconf import OmegaConf

from hierarchos.models.registry import FAMILIES, resolve
from hierarchos.resources import resource
from pipelines.settings import many
from pipelines.settings.folders import Folders
from validation import presets

PRESETS = {path.stem: path for path in sorted(resource("configs").joinpath("model").glob("*_tiny.yaml"))}
TRAINED = ("bert", "roberta", "distilbert", "eurobert", "llama", "bloom")      # in each test run


def test_every_family_has_a_preset():
    assert {f"{name}_tiny" for name in FAMILIES} <= set(PRESETS)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_preset_is_a_model_of_its_family(family):
    path = PRESETS[f"{family}_tiny"]
    config = OmegaConf.to_container(OmegaConf.load(path))["config"]

    model = resolve({**config, "vocab_size": 2048})

    assert config["model_type"] == family
    assert path.read_text(encoding="utf-8").startswith(f"# hierarchos train model={path.stem}\n")
    assert 0.9e6 < model.size < 3e6


def test_every_preset_composes():
    with many.many(Folders.find(None)):
        for family in FAMILIES:
            assert presets.composed(family).model.config["model_type"] == family


@pytest.mark.parametrize("family", TRAINED)
def test_preset_trains_from_nothing(family, device):
    found = presets.tried(family, device, steps=3)
    assert presets.sound(family, found), found
