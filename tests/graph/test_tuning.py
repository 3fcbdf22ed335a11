"""The tuner of matrix products: what it keeps, when it departs from the model, and that plans follow it."""
from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hierarchos.graph import functions as F
from hierarchos.graph import tuning
from hierarchos.graph.op import tracing
from hierarchos.graph.plan import plan_program
from hierarchos.graph.tensor import Graph
from hierarchos.kernels import gemm_gpu
from hierarchos.kernels.gemm_gpu import ProductShape, Tile
from hierarchos.kernels.launch import Profile

GPU = Profile("gpu", subgroup=32, shared_bytes=49152, compute_units=132)
SHAPE = ProductShape("NT", 512, 256, 1024, 1)


class Kept:
    """A device as far as files go."""

    def __init__(self, folder, driver="one"):
        from hierarchos.vulkan.info import DeviceInfo
        self.cache_folder, self.memory = folder, SimpleNamespace(peak=7, used=5)
        self.info = DeviceInfo(0, "a GPU", "discrete", driver=driver)


def product_graph(m: int = 512, n: int = 256, k: int = 1024) -> Graph:
    with tracing(Graph()) as graph:
        graph.outputs["c"] = F.matmul(F.input("a", (m, k)), F.input("b", (n, k)), transpose_b=True)
    return graph


def test_the_products_of_a_plan():
    assert tuning.products(plan_program(product_graph(), GPU), GPU) == [SHAPE]


def test_small_products_are_neither_measured_nor_tuned():
    """Their sums are compensated, which not every tile can."""
    assert tuning.products(plan_program(product_graph(64, 64, 64), GPU), GPU) == []
    small = ProductShape("NT", 64, 64, 64, 1)
    measured = replace(GPU, tuned=((small.key, (*Tile(64, 64, 16, 8, 8, 1).numbers, 1)),))
    assert gemm_gpu.choice(small, measured) == gemm_gpu.expected(small, GPU) != gemm_gpu.choice(small, replace(measured, exact_below=0))


def test_a_plan_follows_what_was_measured():
    choice = (*Tile(64, 64, 16, 8, 8, 1).numbers, 4)
    plan = plan_program(product_graph(), replace(GPU, tuned=((SHAPE.key, choice),)))
    launches = [item for lowering in plan.placement.lowerings.values() for item in lowering.launches if item.shader == "gemm_gpu"]
    assert [(launch.constants[1:7 - 1], launch.groups) for launch in launches] == [((64, 64, 16, 8, 8), (4, 8, 4))]


def test_a_choice_that_names_no_tile_is_ignored():
    assert gemm_gpu.choice(SHAPE, replace(GPU, tuned=((SHAPE.key, (3, 3, 3, 3, 3, 3, 1)),))) == gemm_gpu.choose_tile(512, 256, 1024, 1, GPU)


def test_choices_are_kept_by_device_and_driver(tmp_path, monkeypatch):
    measured = []
    monkeypatch.setattr(tuning, "measure", lambda device, shape, profile: measured.append(shape) or (64, 64, 16, 8, 8, 1, 2))
    first = tuning.tune(Kept(tmp_path), [SHAPE], GPU)
    assert first == tuning.tune(Kept(tmp_path), [SHAPE], GPU) and len(measured) == 1
    tuning.tune(Kept(tmp_path, driver="two"), [SHAPE], GPU)
    assert len(measured) == 2
    tuning.tuning_file(Kept(tmp_path)).write_text("{ not json")
    assert tuning.load_tuning(Kept(tmp_path)) == {}


@pytest.mark.parametrize(("other", "expected"), [(0.985, 0), (0.97, 1)])
def test_only_what_is_two_percent_faster_replaces_the_model(monkeypatch, other, expected):
    every = tuning.candidates(SHAPE, GPU)

    class Bench:
        def __init__(self, *_):
            pass

        def measure(self, choices):
            return [1.0, other] + [2.0] * (len(choices) - 2)

        def close(self):
            pass

    monkeypatch.setattr(tuning, "Bench", Bench)
    tile, parts = every[expected]
    assert tuning.measure(None, SHAPE, GPU) == (*tile.numbers, parts)


def test_candidates_fit_the_device():
    every = tuning.candidates(SHAPE, GPU)
    assert every[0] == gemm_gpu.choose_tile(512, 256, 1024, 1, GPU) and len(set(every)) == len(every) > 5
    assert all(tile.shared_bytes <= GPU.shared_bytes and tile.invocations <= 1024 for tile, _ in every)


def test_a_product_is_measured(device):
    """On the device, whichever: the kernels for GPUs run everywhere."""
    profile = replace(GPU, subgroup=8, shared_bytes=32768, compute_units=2)
    bench = tuning.Bench(device, ProductShape("TN", 32, 32, 64, 2), profile)
    try:
        every = [(Tile(64, 64, 16, 4, 4, 1), 1), (Tile(64, 64, 16, 4, 4, 1), 2)]
        assert all(0 < seconds < 10 for seconds in bench.measure(every))
        a = np.frombuffer(bytes(device.download(bench.blocks[0].address, bench.blocks[0].nbytes)), np.float32).reshape(2, 64, 32)
        b = np.frombuffer(bytes(device.download(bench.blocks[1].address, bench.blocks[1].nbytes)), np.float32).reshape(2, 64, 32)
        c = np.frombuffer(bytes(device.download(bench.blocks[2].address, bench.blocks[2].nbytes)), np.float32).reshape(2, 32, 32)
        assert np.abs(c - a.swapaxes(1, 2) @ b).max() < 1e-4
    finally:
        bench.close()
