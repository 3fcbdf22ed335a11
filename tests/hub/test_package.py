"""Package folders: shards and their index, everything wrong said at once, and writing that leaves the earlier state whole."""
import errno
import json
import os

import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.hub import safetensors_file
from hierarchos.hub.match import PackageMismatch, match
from hierarchos.hub.package import BadPackage, Package
from hierarchos.hub.write import write_package

TENSORS = {f"layer.{i}.weight": np.full((4, 8), i, np.float32) for i in range(5)}
CONFIG = {"model_type": "llama", "torch_dtype": "bfloat16"}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("shard_bytes", [10**9, 300, 1])
def test_a_package_comes_back_as_it_was_written(tmp_path, shard_bytes):
    write_package(tmp_path / "model", CONFIG, TENSORS, shard_bytes=shard_bytes)
    package = Package(tmp_path / "model")
    assert list(package.entries) == list(TENSORS)
    assert all(np.array_equal(package.read(name), values) for name, values in TENSORS.items())
    files = len(list((tmp_path / "model").glob("*.safetensors")))
    assert files == {10**9: 1, 300: 3, 1: 5}[shard_bytes]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_written_config_names_the_written_dtype(tmp_path):
    write_package(tmp_path / "model", CONFIG, TENSORS)
    assert json.loads((tmp_path / "model" / "config.json").read_text()) == {"model_type": "llama", "dtype": "float32"}


def test_tokenizer_and_generation_files_travel_along(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "generation_config.json").write_text("{}")
    (source / "tokenizer.json").write_text("{1}")
    (source / "notes.txt").write_text("not part of it")
    write_package(tmp_path / "model", CONFIG, TENSORS, companions=source, files={"README.md": "made here"})
    expected = {"config.json", "model.safetensors", "generation_config.json", "tokenizer.json", "README.md"}
    assert set(contents(tmp_path / "model")) == expected


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_full_disk_leaves_the_earlier_package_whole(tmp_path, monkeypatch, after):
    write_package(tmp_path / "model", CONFIG, TENSORS)
    before, calls, sync = contents(tmp_path / "model"), iter(range(99)), os.fsync

    def full(handle):
        if next(calls) == after:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(safetensors_file.os, "fsync", full)
    with pytest.raises(UserError) as refusal:
        write_package(tmp_path / "model", CONFIG, {"other": np.zeros(3, np.float32)}, shard_bytes=1)
    assert "the disk is full" in str(refusal.value)
    assert "the package that was there is unchanged" in str(refusal.value)
    assert contents(tmp_path / "model") == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_only_a_package_is_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("important")
    with pytest.raises(UserError, match="not empty and is not a package"):
        write_package(tmp_path, CONFIG, TENSORS)
    assert contents(tmp_path)["thesis.txt"] == b"important"
    with pytest.raises(UserError, match="a file stands where the package should go"):
        write_package(tmp_path / "thesis.txt", CONFIG, TENSORS)


def index_of(folder, **changes):
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"].update(changes)
    path.write_text(json.dumps(index))


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "a/b.safetensors", "..", "..\\x"])
def test_a_shard_outside_of_the_package_is_refused(tmp_path, name):
    write_package(tmp_path / "model", CONFIG, TENSORS, shard_bytes=1)
    index_of(tmp_path / "model", **{"layer.0.weight": name})
    with pytest.raises(BadPackage, match="is not a file of this package"):
        Package(tmp_path / "model")


def test_contradictions_between_index_and_shards_are_refused(tmp_path):
    write_package(tmp_path / "model", CONFIG, TENSORS, shard_bytes=1)
    shards = sorted(path.name for path in (tmp_path / "model").glob("*.safetensors"))
    index_of(tmp_path / "model", **{"layer.0.weight": shards[1]})
    with pytest.raises(BadPackage, match="which does not hold it"):
        Package(tmp_path / "model")
    index_of(tmp_path / "model", **{"layer.0.weight": shards[0]})
    (tmp_path / "model" / shards[2]).unlink()
    with pytest.raises(BadPackage, match=f"1 of 5 shards are missing: {shards[2]}"):
        Package(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors.index.json").write_text('{"weight_map": [1]}')
    with pytest.raises(BadPackage, match="not JSON with a weight_map"):
        Package(tmp_path / "model")


def test_packages_without_safetensors_are_refused(tmp_path):
    with pytest.raises(BadPackage, match="there is neither"):
        Package(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(BadPackage, match="is a pickle"):
        Package(tmp_path)
    (tmp_path / "models").mkdir()
    with pytest.raises(BadPackage, match=r"did you mean  .*models"):
        Package(tmp_path / "model")


def test_everything_wrong_is_said_at_once():
    needed = {"a.weight": (2, 3), "layers.0.up_proj.weight": (4,), "c": (1,)}
    found = {"a.weight": (3, 2), "layers.0.up_prj.weight": (4,), "zzz": (9,)}
    with pytest.raises(PackageMismatch) as refusal:
        match(found, needed, "here")
    error, text = refusal.value, str(refusal.value)
    assert error.missing == ("layers.0.up_proj.weight", "c")
    assert error.wrong == ("a.weight",)
    assert error.extra == ("layers.0.up_prj.weight", "zzz")
    assert "2 tensors are missing, 1 tensor has another shape, 2 tensors are not used" in text
    assert "(the package has layers.0.up_prj.weight)" in text
    assert "a.weight is [3, 2], config.json asks for [2, 3]" in text


def test_packages_of_the_bare_model_and_known_buffers_fit():
    found = {"wte": (1,), "h.0.attn.bias": (4,), "odd": (1,)}
    fit = match(found, {"transformer.wte": (1,)}, "here", lambda name: (name, name.removeprefix("transformer.")), (r"\.attn\.bias$",))
    assert fit.source == {"transformer.wte": "wte"}
    assert fit.extra == ("odd",)
