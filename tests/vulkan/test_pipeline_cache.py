"""The pipeline cache file: written at once, read back, and ignored when it is not ours."""
import pytest

from hierarchos.vulkan.pipeline_cache import cache_file, cache_folder, read_cache, write_cache


def test_pipelines_of_one_run_are_loaded_by_the_next(own_device, axpy_shader, tmp_path):
    first = own_device()
    assert first.prepare([(axpy_shader, (8, 0)), (axpy_shader, (8, 1)), (axpy_shader, (8, 1))]) == 2
    assert first.prepare([(axpy_shader, (8, 0))]) == 0
    first.close()
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".bin"]
    assert own_device().pipelines.cache.loaded


SPOILT = {
    "cut": lambda data: data[:-1], "longer": lambda data: data + b"!", "changed": lambda data: data[:-2] + b"xy",
    "empty": lambda data: b"", "foreign": lambda data: b"PK" + data}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_spoiled_file_is_ignored_and_replaced(own_device, axpy_shader, spoil):
    first = own_device()
    first.prepare([(axpy_shader, (8, 0))])
    path = first.pipelines.cache.path
    first.close()
    path.write_bytes(spoil(path.read_bytes()))
    second = own_device()
    assert not second.pipelines.cache.loaded
    second.prepare([(axpy_shader, (8, 0))])
    second.close()
    assert read_cache(path)


def test_a_folder_that_cannot_be_written_only_costs_the_cache(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert write_cache(tmp_path / "file" / "cache.bin", b"data") is False


def test_other_drivers_have_other_files(device, tmp_path):
    from dataclasses import replace
    info = device.info
    others = [replace(info, driver_version=info.driver_version + 1), replace(info, uuid="00"), replace(info, driver="other")]
    assert len({cache_file(entry, tmp_path) for entry in [info, *others]}) == 4


def test_the_folder_follows_the_users_cache_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "hierarchos"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder().parts[-2:] == (".cache", "hierarchos")
