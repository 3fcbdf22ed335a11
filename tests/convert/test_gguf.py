"""GGUF files as packages: values, names and tokenizers, compared with what Transformers reads from the same file."""
from __future__ import annotations

import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.models.load import load_model
from hierarchos.models.registry import resolve

gguf = pytest.importorskip("gguf")
CONFIG = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "vocab_size": 300, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "tie_word_embeddings": False}
ARCHS = {"llama": CONFIG, "qwen2": CONFIG, "qwen3": CONFIG | {"head_dim": 64},
         "gpt2": {"n_embd": 256, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 300, "tie_word_embeddings": True,
                  "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}}
QUANTISED = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1")
TEXTS = [f"{n} ships sail at dawn, and {n * 7} gulls follow them home." for n in range(60)]


def tokenizer():
    from hierarchos.data.tokenizer_training import train_tokenizer

    return train_tokenizer(TEXTS, 300)


def in_pairs(value: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head as llama.cpp writes them."""
    return value.reshape(heads, 2, value.shape[0] // heads // 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)


def write(path, model_type: str, kind: str = "F32", tensors=None, **metadata):
    """A GGUF file of a small model with matrices in one format; returns the model and its values."""
    import json

    model = resolve({"model_type": model_type, **ARCHS[model_type]})
    values = model.initial_values(3)
    writer = gguf.GGUFWriter(path, model_type)
    raw, heads = model.raw, model.config.heads
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(256)
    writer.add_feed_forward_length(raw.get("intermediate_size", 1024))
    writer.add_head_count(4)
    if model_type == "gpt2":
        writer.add_layer_norm_eps(1e-5)
    else:
        writer.add_head_count_kv(2)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_freq_base(5000.0)
    if model_type == "qwen3":
        writer.add_key_length(64)
        writer.add_value_length(64)
    made = tokenizer()
    found = json.loads(made.core.to_str())
    vocabulary = sorted(found["model"]["vocab"], key=found["model"]["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([3 if text.startswith("<|") else 1 for text in vocabulary])
    writer.add_token_merges([" ".join(merge) if isinstance(merge, list) else merge for merge in found["model"]["merges"]])
    writer.add_eos_token_id(made.eos_id)
    for key, value in metadata.items():
        writer.add_uint32(key.replace("__", "."), value)
    names = gguf.get_tensor_name_map(next(a for a in gguf.MODEL_ARCH if a.name.lower() == model_type), 2)
    for name, value in values.items():
        place = names.get_name(name, (".weight", ".bias"))
        if model_type == "llama" and (".q_proj." in name or ".k_proj." in name):
            value = in_pairs(value, heads.queries if ".q_proj." in name else heads.keys)
        if model_type == "gpt2" and value.ndim == 2 and ".h." in name:
            value = np.ascontiguousarray(value.T)
        type_ = gguf.GGMLQuantizationType[kind if value.ndim == 2 else "F32"]
        writer.add_tensor(place, gguf.quants.quantize(value, type_), raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model, values


@pytest.mark.parametrize("model_type", ARCHS)
def test_a_float_file_gives_the_package_that_it_was_made_of(tmp_path, model_type):
    from hierarchos.convert.gguf_package import convert_gguf

    model, values = write(tmp_path / "m.gguf", model_type)
    convert_gguf(tmp_path / "m.gguf", tmp_path / "package")
    loaded = load_model(tmp_path / "package")
    assert loaded.model.config == model.config and set(values) == set(loaded.values())
    assert all(np.array_equal(loaded.value(name), value) for name, value in values.items())


@pytest.mark.parametrize("model_type", ["llama", "qwen2"])         # of the others it reads not all settings
def test_transformers_reads_the_same_values(tmp_path, model_type):
    pytest.importorskip("transformers")
    import torch
    from transformers import AutoModelForCausalLM

    from hierarchos.convert.gguf_package import convert_gguf

    write(tmp_path / "m.gguf", model_type, "Q8_0")
    convert_gguf(tmp_path / "m.gguf", tmp_path / "package")
    loaded = load_model(tmp_path / "package")
    state = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="m.gguf", dtype=torch.float32).state_dict()
    assert all(np.array_equal(loaded.value(name), state[name].numpy()) for name in loaded.values())


@pytest.mark.parametrize("kind", QUANTISED)
def test_formats_come_back_to_within_their_steps(tmp_path, kind):
    from hierarchos.convert.gguf_package import convert_gguf

    _, values = write(tmp_path / "m.gguf", "llama", kind)
    made = convert_gguf(tmp_path / "m.gguf", tmp_path / "package")
    loaded = load_model(tmp_path / "package")
    worst = max(np.abs(loaded.value(name) - value).max() / np.abs(value).max() for name, value in values.items() if value.ndim == 2)
    assert kind in made.formats and worst < {"F16": 1e-3, "BF16": 5e-3, "Q8_0": 1e-2}.get(kind, 0.2)


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K"])
def test_k_formats_are_read(tmp_path, kind):
    """Blocks of 256 values, made by hand: one scale, all else equal."""
    from hierarchos.convert.gguf_file import GgufFile

    type_ = gguf.GGMLQuantizationType[kind]
    size, nbytes = gguf.GGML_QUANT_SIZES[type_]
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    data = np.random.default_rng(0).integers(0, 100, (4, nbytes), dtype=np.uint8)
    writer.add_tensor("x", data, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GgufFile(tmp_path / "m.gguf")
    assert file.shape("x") == (4, size) and file.read("x").shape == (4, size)


def test_the_tokenizer_is_the_one_that_went_in(tmp_path):
    from hierarchos.convert.gguf_package import convert_gguf
    from hierarchos.data.tokenizer import load_tokenizer

    write(tmp_path / "m.gguf", "llama")
    convert_gguf(tmp_path / "m.gguf", tmp_path / "package")
    made, found = tokenizer(), load_tokenizer(tmp_path / "package")
    for text in ("12 ships sail", "  Fog,\n\nand 7 gulls!", "ünïcödé"):
        assert found.encode(text) == made.encode(text) and found.decode(found.encode(text)) == text
    assert found.eos_id == made.eos_id


@pytest.mark.parametrize(("change", "what"), [
    ({"kind": "Q5_0"}, "is stored as Q5_0"),
    ({"llama__expert_count": 8}, "llama.expert_count=8 is not implemented"),
    ({"llama__attention__sliding_window": 4096}, "llama.attention.sliding_window=4096 is not implemented"),
    ({"llama__rope__dimension_count": 16}, "llama.rope.dimension_count=16 rotates a part of a head of 64"),
])
def test_what_is_not_read_is_refused_by_name(tmp_path, change, what):
    from hierarchos.convert.gguf_package import convert_gguf

    write(tmp_path / "m.gguf", "llama", **change)
    with pytest.raises(UserError) as caught:
        convert_gguf(tmp_path / "m.gguf", tmp_path / "package")
    assert what in caught.value.what and not (tmp_path / "package").exists()


def test_a_file_that_is_no_gguf_is_refused(tmp_path):
    from hierarchos.convert.gguf_file import GgufFile

    (tmp_path / "m.gguf").write_bytes(b"PK\x03\x04")
    with pytest.raises(UserError, match=r"m\.gguf is no GGUF file: it begins with"):
        GgufFile(tmp_path / "m.gguf")
