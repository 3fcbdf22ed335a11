"""safetensors files: exact values in every float format, and refusal of whatever is inconsistent."""
import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from hierarchos.hub.header import BadTensorFile, read_header
from hierarchos.hub.safetensors_file import TensorFile, write_tensors


def entry(start=0, stop=8, shape=(2,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


def raw_file(tmp_path, header, data=b"\0" * 8, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize(("header", "data", "length", "message"), [
    ({"a": entry()}, b"\0" * 4, None, "'a' ends at byte .* it is truncated"),
    ({"a": entry()}, b"", 10**9, "the header claims 1000000000 bytes; at most"),
    ({"a": entry()}, b"", 5000, "the header claims 5000 bytes, the file has"),
    (b"{", b"", None, "the header is not JSON"),
    (b"\xff\xfe{}", b"", None, "the header is not JSON"),
    (b"[" * 100000, b"", None, "the header is not JSON"),
    (b"[]", b"", None, "the header is not an object"),
    (b'{"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}, "a": {}}', b"", None, "'a' stands twice"),
    ({"a": entry(), "b": entry(4, 12)}, b"\0" * 12, None, "'b' overlaps 'a'"),
    ({"a": entry(0, 8), "b": entry(0, 8)}, b"\0" * 8, None, "overlaps"),
    ({"a": entry(4, 12)}, b"\0" * 12, None, "4 bytes between the header and 'a' belong to no tensor"),
    ({"a": entry()}, b"\0" * 9, None, "1 bytes after 'a' belong to no tensor"),
    ({"a": entry(0, 12)}, b"\0" * 12, None, r"needs 8 bytes, its data_offsets span 12"),
    ({"a": entry(8, 0)}, b"\0" * 8, None, "span -8"),
    ({"a": entry(-8, 0)}, b"\0" * 8, None, "whole numbers from 0"),
    ({"a": entry(shape=(2**62, 4))}, b"\0" * 8, None, "needs 73786976294838206464 bytes"),
    ({"a": entry(shape=(-2,))}, b"\0" * 8, None, "whole numbers from 0"),
    ({"a": entry(shape=(2.0,))}, b"\0" * 8, None, "whole numbers from 0"),
    ({"a": entry(dtype="Q4")}, b"\0" * 8, None, "has dtype 'Q4'"),
    ({"a": {"dtype": "F32"}}, b"\0" * 8, None, "needs dtype, shape and data_offsets"),
    ({"__metadata__": [1], "a": entry()}, b"\0" * 8, None, "__metadata__ is not an object of strings"),
])
def test_hostile_files_are_refused(tmp_path, header, data, length, message):
    path = raw_file(tmp_path, header, data, length)
    with pytest.raises(BadTensorFile, match=message) as refusal:
        read_header(path)
    assert str(path) in str(refusal.value)
    assert "nothing was loaded" in str(refusal.value)


def test_a_file_without_a_header_is_refused(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"abc")
    with pytest.raises(BadTensorFile, match="the file has 3 bytes; it is truncated"):
        read_header(tmp_path / "x.safetensors")


@pytest.mark.parametrize(("dtype", "stored"), [
    ("F32", np.array([1.5, -0.1], "<f4").tobytes()), ("F16", np.array([1.5, -0.1], "<f2").tobytes()),
    ("F64", np.array([1.5, -0.1], "<f8").tobytes()), ("BF16", (np.array([1.5, -0.1], "<f4").view("<u4") >> 16).astype("<u2").tobytes())])
def test_every_float_format_becomes_float32(tmp_path, dtype, stored):
    path = raw_file(tmp_path, {"a": entry(0, len(stored), dtype=dtype)}, stored)
    values = TensorFile(path).read("a")
    assert values.dtype == np.float32
    assert values == pytest.approx([1.5, -0.1], rel=2 ** -7)
    assert values[0] == 1.5


def test_integers_are_no_parameters(tmp_path):
    path = raw_file(tmp_path, {"a": entry(dtype="I32")})
    with pytest.raises(BadTensorFile, match="a is stored as I32"):
        TensorFile(path).read("a")


def test_what_is_written_loads_in_the_library_and_here(tmp_path):
    tensors = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.float32([[1], [2]]), "empty": np.zeros((0, 4), np.float32)}
    write_tensors(tmp_path / "x.safetensors", tensors)
    theirs, ours = load_file(tmp_path / "x.safetensors"), TensorFile(tmp_path / "x.safetensors")
    for name, values in tensors.items():
        assert np.array_equal(theirs[name], values)
        assert name == "empty" or np.array_equal(ours.read(name), values)
