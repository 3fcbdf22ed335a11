"""The presets configs/model/<family>_tiny.yaml: small models to train from nothing."""

import pytest
from omegaconf import OmegaConf

from hierarchos.models.registry import FAMILIES, resolve
from hierarchos.resources import resource

PRESETS = sorted(resource("configs").joinpath("model").glob("*_tiny.yaml"))


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_preset_is_a_model_of_its_family(path):
    config = OmegaConf.to_container(OmegaConf.load(path))["config"]

    model = resolve({**config, "vocab_size": 2048})

    assert path.stem == f"{config['model_type']}_tiny"
    assert path.read_text(encoding="utf-8").startswith(f"# hierarchos train model={path.stem}\n")
    assert 0.9e6 < model.size < 3e6


def test_presets_are_of_families_that_exist():
    assert {path.stem.removesuffix("_tiny") for path in PRESETS} <= set(FAMILIES)
