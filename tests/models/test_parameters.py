"""Parameters: Hugging Face names, reference initialisation, seeds that depend on names only; rotary tables."""
import numpy as np
import pytest

from hierarchos.models.registry import resolve, tiny_config
from hierarchos.nn.initialise import initial_value
from hierarchos.nn.rope_scaling import Llama3
from hierarchos.nn.rotary import Rope, inverse_frequencies, rope_tables
from tests.models.twin import CONFIGS


def test_names_and_shapes_are_those_of_the_reference():
    shapes = {spec.name: spec.shape for spec in resolve(CONFIGS["llama"]).parameters}
    assert len(shapes) == 2 * 9 + 3
    assert shapes["model.layers.1.self_attn.k_proj.weight"] == (12, 24)
    assert shapes["lm_head.weight"] == (41, 24)
    gpt2 = {spec.name: spec.shape for spec in resolve(CONFIGS["gpt2"]).parameters}
    assert gpt2["transformer.h.0.attn.c_attn.weight"] == (24, 72)
    assert "lm_head.weight" not in gpt2


def test_matrices_decay_and_norms_and_biases_do_not():
    decay = {spec.name: spec.decay for spec in resolve(CONFIGS["qwen2"]).parameters}
    assert decay["model.layers.0.mlp.up_proj.weight"]
    assert not decay["model.layers.0.self_attn.q_proj.bias"]
    assert not decay["model.norm.weight"]


def test_initialisation_has_the_reference_distribution():
    model = resolve(tiny_config("gpt2_tiny"))
    values = model.initial_values(seed=1)
    assert np.std(values["transformer.wte.weight"]) == pytest.approx(0.02, rel=0.02)
    assert np.std(values["transformer.h.0.mlp.c_proj.weight"]) == pytest.approx(0.02 / 8 ** 0.5, rel=0.02)
    assert (values["transformer.h.0.ln_1.weight"] == 1).all()
    assert (values["transformer.h.0.attn.c_attn.bias"] == 0).all()


def test_values_depend_on_seed_and_name_only():
    specs = resolve(CONFIGS["llama"]).parameters
    alone = initial_value(specs[5], 3)
    assert np.array_equal(alone, resolve(CONFIGS["llama"]).initial_values(3)[specs[5].name])
    assert not np.array_equal(alone, initial_value(specs[5], 4))


def test_rotary_angles_are_float32_products():
    rope = Rope(theta=10000.0, width=8)
    cos, sin = rope_tables(rope, 700)
    angle = np.float32(699) * inverse_frequencies(rope)[1]
    assert angle.dtype == np.float32
    assert cos[699, 1] == np.float32(np.cos(np.float64(angle)))
    assert sin[699, 1] == np.float32(np.sin(np.float64(angle)))


def test_llama3_keeps_short_wavelengths_and_stretches_long_ones():
    plain = inverse_frequencies(Rope(theta=500000.0, width=64))
    scaled = inverse_frequencies(Rope(500000.0, 64, Llama3(8.0, 1.0, 4.0, 8192)))
    assert np.array_equal(scaled[:10], plain[:10])
    assert np.array_equal(scaled[-5:], plain[-5:] / np.float32(8))
    assert (np.diff(scaled) < 0).all()
