"""Loading holds one tensor at a time in memory, whatever the size of the package and the format that it is stored in."""
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from hierarchos.hub.convert import PIECE, as_float32
from hierarchos.hub.header import Entry
from hierarchos.hub.held import Lazy
from hierarchos.hub.write import write_package
from hierarchos.models.load import load_model, save_model
from hierarchos.models.registry import resolve, tiny_config

MODEL = {**tiny_config("llama"), "vocab_size": 512, "num_hidden_layers": 8}


def upper_halves(values):
    """bfloat16 values as the bytes of a file."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


@pytest.fixture(params=["F32", "BF16", "F16"])
def folder(request, tmp_path):
    model = resolve(MODEL)
    stored = {"F32": lambda v: v, "BF16": upper_halves, "F16": lambda v: v.astype(np.float16)}[request.param]
    values = {name: stored(value) for name, value in model.initial_values(0).items()}
    tensors = {name: Lazy(raw.shape, lambda raw=raw: raw, request.param) for name, raw in values.items()}
    write_package(tmp_path / "model", model.raw, tensors, shard_bytes=1 << 20)
    return tmp_path / "model"


def most_held(action) -> int:
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_values_are_converted_one_tensor_at_a_time(folder):
    loaded = load_model(folder)
    largest = max(4 * np.prod(loaded.source(name).shape) for name in loaded.match.source)
    whole = sum(4 * np.prod(loaded.source(name).shape) for name in loaded.match.source)
    values = loaded.values()

    held = most_held(lambda: [values[name].sum() for name in values])

    assert held < 1.5 * largest + 200_000 < whole / 3


def test_a_package_is_written_one_tensor_at_a_time(folder, tmp_path):
    loaded = load_model(folder)
    largest = max(4 * np.prod(loaded.source(name).shape) for name in loaded.match.source)
    values = loaded.values()
    assert most_held(lambda: save_model(tmp_path / "out", loaded.model, values)) < 1.5 * largest + 400_000
    again = load_model(tmp_path / "out")
    assert all(np.array_equal(again.value(name), value) for name, value in loaded.values().items())


@pytest.mark.parametrize("count", [1, PIECE, PIECE + 1, 3 * PIECE + 17])
def test_threads_convert_to_the_same_bits(count):
    bits = np.random.default_rng(0).integers(0, 1 << 16, count, np.uint16)
    for dtype, expected in (("BF16", (bits.astype(np.uint32) << 16).view(np.float32)), ("F16", bits.view(np.float16).astype(np.float32))):
        found = as_float32(bits.view(np.uint8), Entry(dtype, (count,), 0, 2 * count), "x", Path("x"))
        assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


def test_rows_of_a_tensor_are_read_alone(folder):
    loaded = load_model(folder)
    name = "model.embed_tokens.weight"
    assert np.array_equal(loaded.package.read(name, 3, 7), loaded.value(name)[3:7])
