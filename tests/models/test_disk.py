"""Packages that call and cut parameters otherwise: what is written is what Transformers writes, and every bit comes back."""
import json

import numpy as np
import pytest

from hierarchos.hub.held import Lazy
from hierarchos.hub.match import PackageMismatch
from hierarchos.hub.package import Package
from hierarchos.hub.safetensors_file import write_tensors
from hierarchos.hub.write import write_package
from hierarchos.models.disk import Disk, Fused, Stacked
from hierarchos.models.load import load_model, save_model
from hierarchos.models.registry import resolve

SIZES = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
         "max_position_embeddings": 64, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
NAMES = ("nomic_bert", "jina_embeddings_v3")
EXPERTS = Disk(names=(("mixer", "attn"),), stacked=(
    Stacked("experts.gate_up_proj", ("experts.{}.gate_proj.weight", "experts.{}.up_proj.weight")),
    Stacked("experts.down_proj", ("experts.{}.down_proj.weight",))))


def model_and_values(name):
    model = resolve({"model_type": name, **SIZES})
    return model, {key: value + np.float32(0.5) for key, value in model.initial_values(3).items()}


@pytest.mark.parametrize("name", NAMES)
def test_fused_tensors_come_back_bit_for_bit(tmp_path, name):
    model, values = model_and_values(name)
    save_model(tmp_path / "model", model, values, shard_bytes=20_000)
    assert any("Wqkv" in tensor for tensor in Package(tmp_path / "model").home)
    loaded = load_model(tmp_path / "model")
    assert loaded.notes == ()
    assert all(np.array_equal(loaded.value(key), value) for key, value in values.items())


@pytest.mark.parametrize("name", NAMES)
def test_packages_are_exchanged_with_transformers(tmp_path, name):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model, values = model_and_values(name)
    theirs = transformers.AutoModelForMaskedLM.from_config(transformers.CONFIG_MAPPING[name](**SIZES))
    theirs.save_pretrained(tmp_path / "theirs")
    save_model(tmp_path / "ours", model, values)
    assert set(Package(tmp_path / "ours").home) == set(Package(tmp_path / "theirs").home)

    loaded, parameters = load_model(tmp_path / "theirs"), theirs.state_dict()
    assert loaded.notes == ()
    assert all(np.array_equal(value, parameters[key].numpy()) for key, value in loaded.values().items())
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "ours").state_dict()
    assert all(torch.equal(again[key], torch.from_numpy(value)) for key, value in values.items())


def test_a_bare_encoder_of_the_first_files_loads(tmp_path):
    """The released nomic-embed packages: GPT-2's names of sizes, no head, no prefix."""
    model, values = model_and_values("nomic_bert")
    save_model(tmp_path / "whole", model, values)
    whole = Package(tmp_path / "whole")
    bare = {name.removeprefix("nomic_bert."): whole.read(name) for name in whole.home if name.startswith("nomic_bert.")}
    older = {"model_type": "nomic_bert", "vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 48, "n_positions": 64,
             "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "activation_function": "swiglu", "attn_pdrop": 0.0, "resid_pdrop": 0.0,
             "qkv_proj_bias": False, "rotary_emb_fraction": 1.0, "use_flash_attn": True, "type_vocab_size": 2}
    write_package(tmp_path / "bare", older, bare)
    loaded = load_model(tmp_path / "bare")
    assert loaded.model.config == model.config
    assert all(np.array_equal(loaded.value(key), value) for key, value in values.items() if key.startswith("nomic_bert."))


def test_what_is_missing_is_named_as_the_model_names_it(tmp_path):
    model, values = model_and_values("nomic_bert")
    save_model(tmp_path / "whole", model, values)
    whole = Package(tmp_path / "whole")
    gone = "nomic_bert.encoder.layers.1.attn.Wqkv.weight"
    write_package(tmp_path / "less", model.raw, {name: whole.read(name) for name in whole.home if name != gone})
    with pytest.raises(PackageMismatch) as refused:
        load_model(tmp_path / "less")
    assert set(refused.value.missing) == {f"nomic_bert.layers.1.self_attn.{part}_proj.weight" for part in "qkv"}


def test_experts_are_one_parameter_here_and_tensors_of_their_own_there(tmp_path):
    generator = np.random.default_rng(0)
    values = {"layers.0.experts.gate_up_proj": generator.standard_normal((3, 8, 5), np.float32),
              "layers.0.experts.down_proj": generator.standard_normal((3, 5, 4), np.float32),
              "layers.0.mixer.weight": generator.standard_normal((2, 2), np.float32)}
    lazy = {EXPERTS.name(name): Lazy(value.shape, lambda value=value: value) for name, value in values.items()}
    write_package(tmp_path / "model", {}, EXPERTS.cut(lazy))
    package = Package(tmp_path / "model")
    assert np.array_equal(package.read("layers.0.experts.1.up_proj.weight"), values["layers.0.experts.gate_up_proj"][1, 4:])

    held = EXPERTS.open(package)
    assert set(held) == {EXPERTS.name(name) for name in values}
    assert all(np.array_equal(held[EXPERTS.name(name)].read(), value) and held[EXPERTS.name(name)].shape == value.shape
               for name, value in values.items())


def test_a_tensor_that_cannot_be_cut_stays_whole(tmp_path):
    write_package(tmp_path / "model", {}, {"a.Wqkv.weight": np.zeros((4, 2), np.float32)})
    assert set(Disk(fused=(Fused("Wqkv", ("q", "k", "v")),)).open(Package(tmp_path / "model"))) == {"a.Wqkv.weight"}


def test_a_file_of_several_types_puts_wide_ones_first(tmp_path):
    tensors = {"odd": Lazy((3,), lambda: np.arange(3, dtype=np.uint8), "I8"), "wide": np.ones(2, np.float32)}
    write_tensors(tmp_path / "x.safetensors", tensors)
    text = (tmp_path / "x.safetensors").read_bytes()
    header = json.loads(text[8:8 + int.from_bytes(text[:8], "little")])
    assert header["wide"]["data_offsets"] == [0, 8]
    assert header["odd"] == {"dtype": "I8", "shape": [3], "data_offsets": [8, 11]}
