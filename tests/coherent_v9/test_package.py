"""Packages: what is written loads bit for bit; everything that does not fit is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hierarchos.errors import UserError
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.package import CONFIG, FORMAT, PORTABLE, fresh_buffers, is_package, load, save
from tests.coherent_v9.cases import case

GOLDEN = "full_random"


@pytest.fixture
def folder(tmp_path):
    """A package of the golden model."""
    golden = case(GOLDEN)
    cfg = Config(golden.cfg.values, {**golden.cfg.status, "val_proj_trained": True})
    return save(tmp_path / "package", cfg, golden.values, fresh_buffers(cfg, 12.0))


def test_what_is_saved_loads_bit_for_bit(folder, tmp_path):
    found = load(folder)
    assert all(
        np.array_equal(found.values[name], value) and found.values[name].dtype == np.float32 for name, value in case(GOLDEN).values.items()
    )
    assert float(found.buffers["memory_gate_warmup_step"]) == 12.0 and found.config.status["val_proj_trained"] is True
    assert np.abs(found.buffers["time_freqs"] - case(GOLDEN).tensors["buffer.time_freqs"]).max() < 1e-7
    again = save(tmp_path / "again", found.config, found.values, found.buffers)
    for path in folder.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name


def test_package_that_cannot_be_put_in_place_leaves_the_earlier_one(folder, monkeypatch):
    found, before, rename = load(folder), {path.name: path.read_bytes() for path in folder.iterdir()}, Path.rename

    def fails(self, target):
        if ".writing-" in self.name:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(UserError):
        save(folder, found.config, found.values, fresh_buffers(found.config, 13.0))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_files_are_those_of_the_format(folder):
    tensors = load_file(folder / "model.safetensors")
    assert "lm_head.weight" in tensors and "tok_emb.weight" not in tensors and "ltm.sources" not in tensors
    assert {"ltm.fast_vals", "ltm._mom_vals", "ltm.timestamps", "memory_gate_warmup_step", "time_freqs"} <= tensors.keys()
    header = (folder / "model.safetensors").read_bytes()[8:4000].decode("utf-8", "replace")
    assert FORMAT in header and case(GOLDEN).facts["contract_sha256"] in header
    portable = json.loads((folder / PORTABLE).read_text())
    assert portable["architecture_contract_sha256"] == case(GOLDEN).facts["contract_sha256"] and portable["format_version"] == 1
    assert json.loads((folder / CONFIG).read_text())["model_type"] == "hierarchos"


def test_a_plain_config_json_is_a_package_too(folder):
    (folder / CONFIG).rename(folder / "config.json")
    assert is_package(folder) and load(folder).config.context_dim == 16


def rewrite(folder, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_either_name_of_the_tied_table_will_do(folder):
    rewrite(folder, lambda t: t.update({"tok_emb.weight": t.pop("lm_head.weight")}))
    assert np.array_equal(load(folder).values["lm_head.weight"], case(GOLDEN).values["lm_head.weight"])


def test_transient_memory_may_be_missing(folder):
    rewrite(folder, lambda t: [t.pop(name) for name in ("ltm.fast_vals", "ltm._mom_vals", "ltm.timestamps", "time_freqs")])
    assert not load(folder).buffers["ltm.fast_vals"].any()


BROKEN = {
    "lm_head.weight and tok_emb.weight are one tensor, but the file holds two different ones": lambda t: t.update(
        {"tok_emb.weight": t["lm_head.weight"] + 1}
    ),
    "qproj.weight is missing": lambda t: t.pop("qproj.weight"),
    "qproj.wait is not a tensor of this model": lambda t: t.update({"qproj.wait": t["qproj.weight"]}),
    "ltm.keys has shape [11, 8]; its configuration needs [12, 8]": lambda t: t.update({"ltm.keys": t["ltm.keys"][:11].copy()}),
    "persistent holds values that are not finite": lambda t: t.update({"persistent": t["persistent"] * np.float32(np.inf)}),
    "memory_gate_warmup_step is missing": lambda t: t.pop("memory_gate_warmup_step"),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_tensors_are_told(message, folder):
    rewrite(folder, BROKEN[message])
    with pytest.raises(UserError) as told:
        load(folder)
    assert told.value.what == message and str(told.value).endswith("nothing was loaded")


def edit(path, **changes) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_configuration_that_is_not_that_of_the_contract_is_refused(folder):
    edit(folder / CONFIG, h_stride=7)
    with pytest.raises(UserError) as told:
        load(folder)
    assert told.value.what == "another model: h_stride is 3 there and 7 here"


def test_weights_of_another_contract_are_refused(folder):
    edit(folder / CONFIG, h_stride=7)
    (folder / PORTABLE).unlink()
    with pytest.raises(UserError, match="another model: its contract digest is"):
        load(folder)


def test_a_legacy_package_is_refused_with_the_reason(folder):
    edit(folder / CONFIG, architecture_revision="legacy-v8")
    with pytest.raises(UserError) as told:
        load(folder)
    assert told.value.what.startswith("this is a legacy-v8 model: its learned function differs from coherent-v9")
    assert str(told.value).endswith("nothing was loaded")


def test_a_folder_that_is_no_package_is_not_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("important")
    with pytest.raises(UserError, match="the place holds something that is not a Hierarchos package, so it is not replaced"):
        save(tmp_path / "mine", case(GOLDEN).cfg, case(GOLDEN).values)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "important"
