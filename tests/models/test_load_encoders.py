"""Packages of encoders: with their head, without it, and with the names that the first ones have."""
import numpy as np
import pytest

from hierarchos.hub.match import PackageMismatch
from hierarchos.hub.write import write_package
from hierarchos.models.load import load_model, save_model
from hierarchos.models.registry import resolve, tiny_config


@pytest.fixture(scope="module", params=["bert", "roberta", "distilbert", "modernbert", "roformer", "esm"])
def encoder(request):
    model = resolve({**tiny_config(request.param), "vocab_size": 64})
    return model, {name: value + np.float32(0.5) for name, value in model.initial_values(3).items()}


def test_what_is_saved_loads_bit_for_bit(tmp_path, encoder):
    model, values = encoder
    save_model(tmp_path / "model", model, values)
    loaded = load_model(tmp_path / "model")
    assert loaded.notes == ()
    assert all(np.array_equal(loaded.value(name), value) for name, value in values.items())


def test_an_encoder_without_a_head_gets_a_new_one(tmp_path, encoder):
    model, values = encoder
    base = f"{model.family.base}."
    write_package(tmp_path / "model", model.raw, {name.removeprefix(base): v for name, v in values.items() if name.startswith(base)})
    loaded = load_model(tmp_path / "model")
    assert set(loaded.values()) == set(values)
    assert all(np.array_equal(loaded.value(name), value) for name, value in values.items() if name.startswith(base))
    assert "without a head" in loaded.notes[0]
    assert all(np.array_equal(loaded.value(spec.name), model.initial_values(0)[spec.name]) for spec in loaded.fresh)


def test_half_a_head_is_refused(tmp_path, encoder):
    model, values = encoder
    head = [name for name in values if not name.startswith(f"{model.family.base}.")]
    with pytest.raises(PackageMismatch) as refused:
        write_package(tmp_path / "model", model.raw, {name: value for name, value in values.items() if name != head[0]})
        load_model(tmp_path / "model")
    assert refused.value.missing == (head[0],)


def test_the_first_packages_call_norms_gamma_and_beta(tmp_path):
    model = resolve({**tiny_config("bert"), "vocab_size": 64})
    values = model.initial_values(3)
    older = {name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): value for name, value in values.items()}
    write_package(tmp_path / "model", model.raw, older)
    loaded = load_model(tmp_path / "model")
    assert loaded.notes == ()
    assert all(np.array_equal(loaded.value(name), value) for name, value in values.items())
