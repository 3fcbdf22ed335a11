"""Adapters on disk: PEFT's files, several by name, merge and unmerge."""
from __future__ import annotations

import json

import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.models.load import load_model
from hierarchos.peft.compute import logits_of_package
from hierarchos.peft.files import open_adapter
from hierarchos.peft.load import load_adapters
from hierarchos.peft.merge import merge_adapter, unmerge_adapter

IDS = np.random.default_rng(2).integers(0, 61, (2, 9)).astype(np.int32)


def test_a_written_adapter_has_the_names_of_peft(adapter):
    file = open_adapter(adapter())
    assert "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" in file.tensors.entries
    written = json.loads((file.folder / "adapter_config.json").read_text())
    assert written["peft_type"] == "LORA" and written["target_modules"] == sorted(
        f"{name}_proj" for name in ("q", "k", "v", "o", "gate", "up", "down"))


def test_several_adapters_are_switched_and_disabled(base, adapter, device):
    opened = load_adapters(base, {"one": adapter("one", 1), "two": adapter("two", 2, target_modules=("q_proj",), r=4)})
    alone = {name: logits_of_package(load_adapters(base, {"it": adapter(name + "2", seed, **settings)}), IDS, device)
             for name, seed, settings in (("one", 1, {}), ("two", 2, {"target_modules": ("q_proj",), "r": 4}))}
    assert opened.model.active == "one"
    for name, expected in alone.items():
        assert np.array_equal(logits_of_package(opened.use(name), IDS, device), expected)
    plain = logits_of_package(base, IDS, device)
    assert np.array_equal(logits_of_package(opened.use(None), IDS, device), plain)
    assert np.abs(alone["one"] - plain).max() > 0.01


def test_a_name_that_is_not_loaded_is_an_error(base, adapter):
    with pytest.raises(UserError, match="there is no adapter 'tow'") as caught:
        load_adapters(base, {"two": adapter()}).use("tow")
    assert caught.value.nearest == "two"


def test_a_generator_switches_adapters_over_one_store(base, adapter, device):
    from hierarchos.graph.store import StateStore
    from hierarchos.graph.tensor import Spec
    from hierarchos.peft.compute import logits_graph

    opened = load_adapters(base, {"one": adapter("one", 1), "two": adapter("two", 2)})
    store = StateStore(device)
    store.allocate("parameters", {spec.name: Spec(spec.shape) for spec in opened.model.parameters})
    for name in opened.match.source:
        store.write(name, opened.value(name))
    from hierarchos.graph.program import compile_program

    feeds = {"ids": IDS, "positions": np.tile(np.arange(9, dtype=np.int32), (2, 1)), "segments": np.ones_like(IDS)}
    for name in ("one", "two", None):
        program = compile_program(logits_graph(opened.model.use(name), 2, 9), device, store)
        assert np.array_equal(program.run(feeds)["logits"], logits_of_package(opened.use(name), IDS, device))


@pytest.mark.parametrize("settings", [
    {}, {"use_rslora": True}, {"use_dora": True}, {"target_modules": ("q_proj", "embed_tokens", "lm_head")},
    {"modules_to_save": ("lm_head", "norm")}, {"trainable_token_indices": {"embed_tokens": (4, 8)}}])
def test_a_merged_package_computes_what_base_and_adapter_do(base, adapter, device, tmp_path, settings):
    folder = adapter(**settings)
    expected = logits_of_package(load_adapters(base, {"it": folder}), IDS, device)
    made = merge_adapter(base.package.folder, folder, tmp_path / "merged", device=device, shard_bytes=20_000)
    written = load_model(tmp_path / "merged")
    assert np.abs(logits_of_package(written, IDS, device) - expected).max() < 1e-4
    assert len(list((tmp_path / "merged").glob("*.safetensors"))) > 1 and not list(tmp_path.glob(".merged*"))
    untied = {"lm_head", "embed_tokens"} & {*settings.get("target_modules", ()), *settings.get("modules_to_save", ())}
    assert made.tied == written.model.config.tied == (not untied)


def test_unmerge_gives_the_base_back(base, adapter, device, tmp_path):
    folder = adapter()
    merge_adapter(base.package.folder, folder, tmp_path / "merged", device=device)
    unmerge_adapter(tmp_path / "merged", folder, tmp_path / "again", device=device)
    again = load_model(tmp_path / "again")
    assert max(np.abs(again.value(name) - value).max() for name, value in base.values().items()) < 1e-7


def test_a_merge_that_computes_something_else_is_not_published(base, adapter, device, tmp_path, monkeypatch):
    from hierarchos.peft import merge

    folder, right = adapter(), merge.MergedValues.__getitem__
    monkeypatch.setattr(merge.MergedValues, "__getitem__", lambda self, name: right(self, name) * np.float32(1.5))
    with pytest.raises(UserError, match="the written package computes something else"):
        merge_adapter(base.package.folder, folder, tmp_path / "merged", device=device)
    assert not (tmp_path / "merged").exists() and not list(tmp_path.glob(".merged*"))


@pytest.mark.parametrize(("settings", "reason"), [({"use_dora": True}, "DoRA turned weights"),
                                                  ({"modules_to_save": ("norm",)}, "it replaced whole modules")])
def test_what_was_replaced_cannot_be_taken_out(base, adapter, device, tmp_path, settings, reason):
    folder = adapter(**settings)
    with pytest.raises(UserError, match=f"this adapter cannot be taken out: {reason}"):
        unmerge_adapter(base.package.folder, folder, tmp_path / "again", device=device)


def test_another_adapter_is_not_taken_out(base, adapter, device, tmp_path):
    merge_adapter(base.package.folder, adapter("one", 1), tmp_path / "merged", device=device)
    with pytest.raises(UserError, match="another adapter was merged into this package"):
        unmerge_adapter(tmp_path / "merged", adapter("two", 2), tmp_path / "again", device=device)


def test_an_adapter_loads_in_peft_with_the_same_values(base, adapter):
    pytest.importorskip("peft")
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    folder = adapter()
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base.package.folder, dtype=torch.float32), folder)
    state = {name.replace(".default", ""): value for name, value in model.state_dict().items() if "lora_" in name}
    file = open_adapter(folder)
    assert set(state) == set(file.tensors.entries)
    assert all(np.array_equal(value.numpy(), file.tensors.read(name)) for name, value in state.items())
