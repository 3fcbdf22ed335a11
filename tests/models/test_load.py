"""A package becomes a model and its values; tied heads are decided by what the files hold."""
import json

import numpy as np
import pytest

from hierarchos.hub.match import PackageMismatch
from hierarchos.hub.write import write_package
from hierarchos.models.load import load_model, save_model
from tests.models.twin import CONFIGS, model_and_values


def float32(values):
    return {name: value.astype(np.float32) for name, value in values.items()}


@pytest.mark.parametrize("name", CONFIGS)
def test_saved_models_load_bit_for_bit(tmp_path, name):
    model, values = model_and_values(name)
    save_model(tmp_path / "model", model, float32(values), shard_bytes=5000)
    loaded = load_model(tmp_path / "model")
    assert loaded.model.config == model.config
    assert loaded.notes == ()
    assert all(np.array_equal(loaded.value(key), value) for key, value in float32(values).items())


def test_a_tied_package_may_repeat_the_head(tmp_path):
    model, values = model_and_values("llama tied")
    values = float32(values)
    write_package(tmp_path / "model", model.raw, {**values, "lm_head.weight": values["model.embed_tokens.weight"]})
    loaded = load_model(tmp_path / "model")
    assert loaded.model.config.tied
    assert loaded.notes == ()


def test_a_head_with_other_values_is_kept_untied(tmp_path):
    model, values = model_and_values("llama tied")
    values = float32(values)
    write_package(tmp_path / "model", model.raw, {**values, "lm_head.weight": values["model.embed_tokens.weight"] + 1})
    loaded = load_model(tmp_path / "model")
    assert not loaded.model.config.tied
    assert "both are kept, untied" in loaded.notes[0]
    save_model(tmp_path / "again", loaded.model, loaded.values())
    assert json.loads((tmp_path / "again" / "config.json").read_text())["tie_word_embeddings"] is False


def test_a_tied_package_may_hold_only_the_head(tmp_path):
    model, values = model_and_values("llama tied")
    values = float32(values)
    renamed = {("lm_head.weight" if name == "model.embed_tokens.weight" else name): value for name, value in values.items()}
    write_package(tmp_path / "model", model.raw, renamed)
    assert np.array_equal(load_model(tmp_path / "model").value("model.embed_tokens.weight"), values["model.embed_tokens.weight"])


def test_an_untied_package_needs_its_head(tmp_path):
    model, values = model_and_values("llama")
    values = float32(values)
    del values["lm_head.weight"]
    write_package(tmp_path / "model", model.raw, values)
    with pytest.raises(PackageMismatch, match="1 tensor is missing"):
        load_model(tmp_path / "model")


def test_unused_tensors_are_reported(tmp_path):
    model, values = model_and_values("gpt2")
    values = float32(values)
    extra = {"vision.weight": np.zeros(3, np.float32), "transformer.h.0.attn.bias": np.zeros((1, 1), np.float32)}
    write_package(tmp_path / "model", model.raw, {**values, **extra})
    assert load_model(tmp_path / "model").notes == ("1 tensors of the package are not used: vision.weight",)


def test_packages_without_the_base_prefix_load(tmp_path):
    model, values = model_and_values("gpt2")
    bare = {name.removeprefix("transformer."): value for name, value in float32(values).items()}
    write_package(tmp_path / "model", model.raw, bare)
    assert np.array_equal(load_model(tmp_path / "model").value("transformer.wte.weight"), bare["wte.weight"])
