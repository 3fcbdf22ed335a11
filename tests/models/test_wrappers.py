"""Models around a text model: their packages load as the text model, and are written with everything else unchanged."""

import json

import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.hub.held import Lazy
from hierarchos.hub.package import Package
from hierarchos.hub.write import write_package
from hierarchos.models.aliases import TEXTS, WRAPPERS, Alias, wrapped_names
from hierarchos.models.load import load_model, save_model
from hierarchos.models.registry import resolve, tiny_config
from tests.models.twin import SHARED, run_logits

LLAVA = {"model_type": "llava", "text_config": {"model_type": "llama", **SHARED}, "vision_config": {"model_type": "clip_vision_model"},
         "image_token_index": 32000}
TASKS = ("MASKED_LM", "IMAGE_TEXT_TO_TEXT", "CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "MULTIMODAL_LM")
NEEDED = {
    "emu3": {"vocabulary_map": {"<image>": 1}},
    "cohere_compass": {"text_config": {"model_type": "cohere_compass_text", "rope_parameters": {"full_attention": None}}},
}  # what the reference cannot do without
UNBUILT = {"aya_vision", "fast_vlm", "granite4_vision", "hunyuan_vl"}      # whose default towers the reference cannot build alone
TOWER = {"model.vision_tower.embeddings.weight": np.arange(6, dtype=np.float32).reshape(2, 3)}


def write_llava(folder, spelling: int):
    """A package whose text tensors have one of the known spellings."""
    model = resolve(LLAVA)
    values = model.initial_values(3)
    named = {wrapped_names(model.wrapper, name)[spelling]: value for name, value in values.items()}
    write_package(folder, LLAVA, named | TOWER)
    return model, values


@pytest.mark.parametrize("spelling", [0, 1])
def test_package_comes_back_with_new_text_values_and_the_same_tower(tmp_path, spelling):
    _, values = write_llava(tmp_path / "llava", spelling)
    loaded = load_model(tmp_path / "llava")
    trained = {name: value + 1 for name, value in loaded.values().items()}

    save_model(tmp_path / "out", loaded.model, trained, companions=tmp_path / "llava")

    again, package = load_model(tmp_path / "out"), Package(tmp_path / "out")
    assert all(np.array_equal(loaded.value(name), value) for name, value in values.items())
    assert all(np.array_equal(again.value(name), value + 1) for name, value in values.items())
    assert set(package.home) == set(Package(tmp_path / "llava").home)
    assert all(np.array_equal(package.read(name), value) for name, value in TOWER.items())
    assert json.loads((tmp_path / "out" / "config.json").read_text())["text_config"] == LLAVA["text_config"]


def small_text(text: str) -> dict:
    """A small config.json of a text model, by its name or another."""
    alias = TEXTS.get(text, Alias(text))
    small = {name: value for name, value in tiny_config(alias.family).items() if name not in ("architectures", "tie_word_embeddings")}
    image_layers = {"cross_attention_layers": [1]} if alias.module == "mllama" else {}
    return {**small, **alias.only, **image_layers, "model_type": text, "vocab_size": 41}


@pytest.mark.parametrize("model_type", sorted(WRAPPERS))
def test_text_is_trained_and_all_else_keeps_its_bits_and_types(tmp_path, model_type):
    """A tower in bfloat16, and numbers that are no floats, are written as they stand."""
    bits = {"model.vision_tower.half": ("BF16", np.arange(7, dtype=np.uint16)), "model.vision_tower.ids": ("I64", np.arange(3))}
    wrapper, whole, out = WRAPPERS[model_type], tmp_path / "whole", tmp_path / "out"
    text = small_text(wrapper.text)
    raw = {**text, "model_type": model_type} if wrapper.prefix == "model." else {"model_type": model_type, "text_config": text}
    model = resolve(raw)
    values = {name: value + np.float32(0.5) for name, value in model.initial_values(3).items()}
    towers = {name: Lazy(raw.shape, lambda raw=raw: raw, dtype) for name, (dtype, raw) in bits.items()}
    write_package(whole, raw, {wrapped_names(model.wrapper, name)[0]: value for name, value in values.items()} | towers)

    loaded = load_model(whole)
    assert loaded.notes == ()
    assert all(np.array_equal(loaded.value(name), value) for name, value in values.items())
    save_model(out, loaded.model, {name: value + 1 for name, value in values.items()}, companions=whole)

    again, package = load_model(out), Package(out)
    assert all(np.array_equal(again.value(name), value + 1) for name, value in values.items())
    assert set(package.home) == set(Package(whole).home)
    for name, (dtype, raw) in bits.items():
        assert package.entries[name].dtype == dtype
        assert package.home[name].raw(name).tobytes() == raw.tobytes()


@pytest.mark.parametrize("text", sorted(TEXTS))
def test_a_text_model_under_another_name_is_read_and_written(tmp_path, text):
    model = resolve(small_text(text))
    values = model.initial_values(3)
    beside = {"model.layers.1.cross_attn_mlp_gate": np.ones(1, np.float32)} if model.is_part else {}
    write_package(tmp_path / "first", model.raw, values | beside)
    save_model(tmp_path / "again", model, values, companions=tmp_path / "first")
    loaded = load_model(tmp_path / "again")
    assert loaded.notes == () and loaded.model.raw["model_type"] == text
    assert all(np.array_equal(loaded.value(name), value) for name, value in values.items())
    assert set(loaded.package.home) == {*values, *beside}


def test_a_wrapper_without_its_package_is_not_written(tmp_path):
    model = resolve(LLAVA)
    with pytest.raises(UserError, match="llava is more than its text model"):
        save_model(tmp_path / "out", model, model.initial_values(0))


def test_older_config_has_the_text_fields_at_the_top():
    flat = resolve({"model_type": "qwen2_vl", **SHARED, "vision_config": {"depth": 2}, "image_token_id": 7, "rope_theta": 1e6})
    nested = resolve({"model_type": "qwen2_vl", "text_config": {**SHARED, "rope_theta": 1e6}, "vision_config": {"depth": 2}})
    assert flat.config == nested.config


def test_a_wrapper_without_text_config_is_refused():
    with pytest.raises(UserError, match=r"config\.json of llava has no text_config"):
        resolve({"model_type": "llava", "vision_config": {}})


@pytest.mark.parametrize("model_type", sorted(WRAPPERS.keys() - UNBUILT))
def test_names_and_shapes_are_those_of_the_reference(model_type):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = transformers.CONFIG_MAPPING[model_type](**NEEDED.get(model_type, {}))
    for each in (config.get_text_config(), config):
        for name in ("num_hidden_layers", "num_layers", "depth", "encoder_layers"):
            if isinstance(getattr(each, name, None), int) and not getattr(each, "layer_types", None):
                setattr(each, name, 2)
    mapping = transformers.models.auto.modeling_auto
    tables = (getattr(mapping, f"MODEL_FOR_{task}_MAPPING_NAMES") for task in TASKS)
    names = (table.get(model_type) for table in tables)
    written = config.to_json_string(use_diff=False)
    with torch.device("meta"):
        theirs = dict(getattr(transformers, next(filter(None, names)))(config).named_parameters())

    model = resolve(json.loads(written))

    for spec in model.parameters:
        name = wrapped_names(model.wrapper, spec.name)[0]
        assert name in theirs and tuple(theirs[name].shape) == spec.shape, name
    assert model.config.tied == ("lm_head.weight" not in theirs)


SMALL_TEXT = {"vocab_size": 128, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "max_position_embeddings": 64,
              "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SMALL_TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
BUILT = {
    "mllama": ("MllamaForConditionalGeneration", {
        "text_config": {**SMALL_TEXT, "num_hidden_layers": 3, "num_key_value_heads": 2, "cross_attention_layers": [1],
                        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        "vision_config": {**SMALL_TOWER, "num_global_layers": 1, "attention_heads": 2, "image_size": 28, "patch_size": 14,
                          "vision_output_dim": 64, "intermediate_layers_indices": [0], "max_num_tiles": 1,
                          "supported_aspect_ratios": [[1, 1]]}}),
    "modernvbert": ("ModernVBertForMaskedLM", {
        "text_config": {"model_type": "modernbert", **SMALL_TEXT, "num_hidden_layers": 2, "cls_token_id": 1, "sep_token_id": 2},
        "vision_config": {"model_type": "siglip_vision_model", **SMALL_TOWER, "num_attention_heads": 2, "image_size": 32,
                          "patch_size": 16}}),
}  # model_type -> class, configuration


@pytest.mark.parametrize("model_type", BUILT)
def test_what_transformers_writes_computes_the_same_here_and_comes_back(tmp_path, model_type):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    name, config = BUILT[model_type]
    torch.manual_seed(0)
    first = getattr(transformers, name)(transformers.CONFIG_MAPPING[model_type](**config)).eval()
    first.save_pretrained(tmp_path / "theirs")
    ids = np.random.default_rng(0).integers(5, 100, (2, 20))

    loaded = load_model(tmp_path / "theirs")
    save_model(tmp_path / "ours", loaded.model, loaded.values(), companions=tmp_path / "theirs")
    again = getattr(transformers, name).from_pretrained(tmp_path / "ours", dtype=torch.float32).eval()

    with torch.no_grad():
        theirs, back = (model(input_ids=torch.tensor(ids)).logits for model in (first, again))
    assert torch.equal(theirs, back)
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in first.state_dict().items())
    ours = run_logits(loaded.model, {key: value.astype(np.float64) for key, value in loaded.values().items()}, ids)
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5, atol=1e-5)
