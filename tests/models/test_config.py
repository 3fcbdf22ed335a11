"""config.json is read closed: explicit values, old spellings, and refusals that name the field."""
import pytest

from hierarchos.errors import UserError
from hierarchos.models.registry import FAMILIES, read_model, resolve, tiny_config
from tests.models.twin import CONFIGS, SHARED

LLAMA = CONFIGS["llama"]


@pytest.mark.parametrize(("change", "message"), [
    ({"new_gate": 3}, "config.json of llama has fields that are not implemented: new_gate = 3"),
    ({"new_gate": 3, "b": True}, "new_gate = 3, b = true"),
    ({"quantization_config": {"bits": 4}}, 'quantization_config is {"bits": 4}; llama takes null'),
    ({"pretraining_tp": 2}, "pretraining_tp is 2; llama takes 1 or null"),
    ({"rope_interleaved": True}, "rope_interleaved is true; llama takes false or null"),
    ({"hidden_act": "silo"}, 'hidden_act is "silo"; llama takes one of'),
    ({"hidden_size": "64"}, 'hidden_size is "64"; llama takes a whole number of at least 1'),
    ({"hidden_size": True}, "hidden_size is true"),
    ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
    ({"num_key_value_heads": 3}, "num_key_value_heads is 3; llama takes a divisor of num_attention_heads = 4"),
    ({"attention_dropout": 1.0}, "attention_dropout is 1.0; llama takes a number, at least 0.0 and below 1.0"),
    ({"tie_word_embeddings": "no"}, 'tie_word_embeddings is "no"; llama takes true or false'),
    ({"rope_scaling": {"type": "yam", "factor": 2}}, "rope_type 'yam' of llama is not implemented"),
    ({"rope_scaling": {"type": "linear"}}, "rope_type 'linear' needs factor"),
    ({"rope_scaling": {"type": "linear", "factor": -1}}, "factor is -1; a number above 0 is needed"),
    ({"rope_parameters": {"rope_type": "default", "mscale": 2}}, "mscale = 2 is not implemented for rope_type 'default'"),
    ({"rope_parameters": [1]}, "rope_parameters is [1]; llama takes an object"),
    ({"head_dim": 7}, "7 of 7 channels are rotated"),
    ({"model_type": "lama"}, "model_type 'lama' is not an architecture that is implemented"),
    ({"model_type": None}, "config.json has no model_type"),
])
def test_what_is_not_implemented_is_refused_by_name(change, message):
    with pytest.raises(UserError) as refusal:
        resolve({**LLAMA, **change})
    assert message in str(refusal.value)
    assert "nothing was started" in str(refusal.value)


def test_the_nearest_name_is_offered():
    with pytest.raises(UserError, match="did you mean  llama"):
        resolve({**LLAMA, "model_type": "lama"})
    with pytest.raises(UserError, match="did you mean  rms_norm_eps"):
        resolve({**{n: v for n, v in LLAMA.items()}, "rms_norm_epsilon": 1e-5})


@pytest.mark.parametrize(("model_type", "change", "message"), [
    ("mistral", {"layer_types": ["full_attention"] * 2}, "layer_types"),
    ("qwen2", {"layer_types": ["full_attention"]}, "a list with one name for each of the 2 layers"),
    ("qwen2", {"layer_types": ["full_attention", "chunked_attention"]}, "full_attention or sliding_attention"),
    ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, "only with use_sliding_window"),
    ("llama", {"sliding_window": 8}, "sliding_window = 8"),
])
def test_layer_kinds_that_cannot_be_are_refused(model_type, change, message):
    with pytest.raises(UserError, match=message):
        resolve({"model_type": model_type, **SHARED, **change})


def test_gpt2_refuses_cross_attention():
    with pytest.raises(UserError, match="add_cross_attention is true; gpt2 takes false"):
        resolve({**CONFIGS["gpt2"], "add_cross_attention": True})


def test_old_and_new_spellings_of_rope_agree():
    old = resolve({**LLAMA, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}})
    new = resolve({**LLAMA, "rope_parameters": {"rope_type": "linear", "rope_theta": 5e5, "factor": 4.0}})
    assert old.config.ropes == new.config.ropes
    assert (old.config.ropes[0].theta, old.config.ropes[0].scaling.factor) == (5e5, 4.0)


def test_defaults_are_those_of_the_reference():
    llama, mistral, qwen3, gpt2 = (resolve({"model_type": name}).config for name in ("llama", "mistral", "qwen3", "gpt2"))
    assert (llama.vocab_size, llama.inner, llama.heads.keys, llama.max_positions) == (32000, 11008, 32, 2048)
    assert (mistral.inner, mistral.heads.keys, mistral.windows[0]) == (14336, 8, 4096)
    assert (qwen3.vocab_size, qwen3.heads.width, qwen3.windows[-1]) == (151936, 128, None)
    assert (gpt2.vocab_size, gpt2.width, gpt2.inner, gpt2.tied, gpt2.residual_dropout) == (50257, 768, 3072, True, 0.1)


def test_null_and_private_fields_say_nothing():
    assert resolve({**LLAMA, "new_gate": None, "_name_or_path": "x", "torch_dtype": "bfloat16"}).config == resolve(LLAMA).config


def test_a_field_known_to_be_harmless_can_be_ignored():
    assert resolve({**LLAMA, "comment": "mine"}, ignore=("comment",)).config == resolve(LLAMA).config


@pytest.mark.parametrize("name", FAMILIES)
def test_tiny_presets_have_one_to_three_million_parameters(name):
    model = resolve(tiny_config(f"{name}_tiny"))
    assert 0.9e6 < model.size < 3e6


@pytest.mark.parametrize(("content", "message"), [
    (None, "a package needs config.json, there is none"),
    (b'{"model_type": ', "config.json is not JSON"),
    (b'{"model_type": "ll\xe9ma"}', "not UTF-8"),
    (b"[1]", "holds a list, not an object"),
])
def test_unusable_config_files(tmp_path, content, message):
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path)
