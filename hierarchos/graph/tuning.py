"""Measures tiles of matrix products on a device and remembers the best: once for each product, device and driver.

A choice is kept in `tuning/` of the cache folder. It replaces what the model of `kernels/gemm_gpu.py` says only where it is at least
2 % faster, so that noise does not move it. Results of a product depend on the choice by rounding; the same choices give the same bits.
"""
from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.graph.binding import bind, shader_named
from hierarchos.graph.plan import Plan, plan_program
from hierarchos.graph.profile import profile_of
from hierarchos.kernels import gemm_gpu, gemm_split
from hierarchos.kernels.gemm_gpu import ProductShape, Tile
from hierarchos.kernels.gemm_layout import Matrix, Product
from hierarchos.kernels.gemm_parts import SHORTEST_PART
from hierarchos.kernels.gemm_split import SplitTile
from hierarchos.kernels.launch import In, Launch, Lowering, Operand, Out, Profile, row_major
from hierarchos.vulkan.errors import OutOfMemory
from hierarchos.vulkan.pipeline_cache import cache_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hierarchos.graph.layout import StoreLayout
    from hierarchos.graph.tensor import Graph

Choice = tuple[Tile | SplitTile, int]
HYSTERESIS = 0.98                                   # of the model's time: what a measured choice has to stay below
MOST_CANDIDATES = 24
PROMISING = 2.5                                     # times the model's best: candidates beyond are not measured
OPERATIONS = 4e9                                    # of one recording: the product is repeated up to that
ROUNDS = 6
MOST_BYTES = 2 << 30                                # operands of a product that is measured


def tuning_file(device) -> Path:
    """The file of this device and driver, and of these kernels."""
    kernels = shader_named("gemm_gpu").digest[:4] + shader_named("gemm_split").digest[:4]
    return device.cache_folder / "tuning" / f"{cache_file(device.info, device.cache_folder).stem}-{kernels}.json"


def load_tuning(device) -> dict[str, tuple[int, ...]]:
    """The choices that were kept, by product; none where the file cannot be read."""
    try:
        return {key: tuple(numbers) for key, numbers in json.loads(tuning_file(device).read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def save_tuning(device, choices: dict[str, tuple[int, ...]]) -> bool:
    """Replaces the file at once; a failure only costs the memory of the choices, so it says False."""
    path = tuning_file(device)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump(dict(sorted(choices.items())), file, indent=1)
        os.replace(file.name, path)
        return True
    except OSError:
        return False


def products(plan: Plan, profile: Profile) -> list[ProductShape]:
    """The tiled products of a plan that are worth a measurement, each once."""
    found: dict[str, ProductShape] = {}
    for lowering in plan.placement.lowerings.values():
        for item in lowering.launches:
            if isinstance(item, Launch) and item.shader in ("gemm_gpu", "gemm_split") and item.label.startswith("gemm "):
                layout, sizes, *parts = item.label.removeprefix("gemm ").removeprefix("split ").split()
                m, n, k = map(int, sizes.split("x"))
                shape = ProductShape(layout, m, n, k, item.groups[2] // (int(parts[1]) if parts else 1))
                if shape.operations >= profile.exact_below:
                    found[shape.key] = shape
    return list(found.values())


def candidates(shape: ProductShape, profile: Profile) -> list[Choice]:
    """Tiles and parts worth measuring, the model's choice first."""
    plain = [tile for tile in (*gemm_gpu.TILES, *gemm_gpu.MORE_TILES)
             if tile.shared_bytes <= profile.shared_bytes and tile.invocations <= 1024]
    split = [tile for tile in gemm_split.fitting((*gemm_split.TILES, *gemm_split.MORE_TILES), profile)
             if gemm_split.usable(shape.k, shape.batch, profile)]
    pairs = [(tile, parts) for tile in (*split, *plain) for parts in gemm_gpu.SPLITS
             if parts == 1 or (shape.k >= parts * SHORTEST_PART and parts * shape.m * shape.n * shape.batch * 4 <= MOST_BYTES)]
    first = gemm_gpu.expected(shape, profile)
    guess = {pair: guessed(pair, shape, profile) for pair in pairs}
    others = sorted((pair for pair in pairs if pair != first and guess[pair] <= PROMISING * guess.get(first, 0)), key=guess.__getitem__)
    return [first, *others[:MOST_CANDIDATES]]


def guessed(pair: Choice, shape: ProductShape, profile: Profile) -> float:
    """Microseconds by the model of the kernel."""
    if isinstance(pair[0], SplitTile):
        return gemm_split.microseconds(*pair, shape.m, shape.n, shape.k, profile)
    return gemm_gpu.microseconds(*pair, shape.m, shape.n, shape.k, shape.batch, profile)


def tuned_plan(graph: Graph, device, layout: StoreLayout | None) -> Plan:
    """The plan of a graph on a device; where it is tuned (`device.autotune`), with the best tiles of all its products."""
    limit, profile = device.info.max_allocation or None, profile_of(device)
    plan = plan_program(graph, profile, layout, limit)
    autotune = getattr(device, "autotune", False)  # a description of a device will do for plans
    missing = [shape for shape in products(plan, profile) if shape.key not in device.tuned] if autotune else []
    if not missing:
        return plan
    device.tuned |= tune(device, missing, profile)
    return plan_program(graph, profile_of(device), layout, limit)


class Bench:
    """A product whose operands lie on the device."""

    def __init__(self, device, shape: ProductShape, profile: Profile):
        import numpy as np

        self.device, self.shape, self.profile = device, shape, profile
        batch, m, n, k = shape.batch, shape.m, shape.n, shape.k
        noise = np.random.default_rng(0).standard_normal(1 << 20, np.float32)
        self.blocks = []
        try:
            for size in (m * k, k * n, m * n):
                self.blocks.append(device.allocate(4 * batch * size, "tuning"))
        except BaseException:
            self.close()
            raise
        for block in self.blocks[:2]:
            for at in range(0, block.nbytes, noise.nbytes):
                device.upload(block.address + at, noise[:min(noise.size, (block.nbytes - at) // 4)])
        a = Matrix(In(0), 1, m, m * k, m * k) if shape.layout[0] == "T" else Matrix(In(0), k, 1, m * k, m * k)
        b = Matrix(In(1), 1, k, k * n, k * n) if shape.layout[1] == "T" else Matrix(In(1), n, 1, k * n, k * n)
        self.product = Product(m, n, k, a, b, Matrix(Out(0), n, 1, m * n, m * n), 1, batch)
        self.operands = [(block.address, Operand(size, "f32", row_major(size)))
                         for block, size in zip(self.blocks, ((batch, m, k), (batch, k, n), (batch, m, n)), strict=True)]

    def commands(self, chosen: Choice, workspace: int) -> list:
        made, nbytes = gemm_gpu.launches(self.product, *chosen, self.profile, 0)
        return bind(Lowering(tuple(made), nbytes), self.operands[:2], self.operands[2:], workspace, "tuning")

    def measure(self, every: list[Choice]) -> list[float]:
        """Seconds of each choice."""
        needed = max(gemm_gpu.launches(self.product, *chosen, self.profile, 0)[1] for chosen in every)
        scratch = self.device.allocate(max(needed, 256), "tuning")
        try:
            commands = [self.commands(chosen, scratch.address) for chosen in every]
            self.device.pipelines.prepare((c.shader, c.constants) for made in commands for c in made)
            repeats = max(2, min(50, int(OPERATIONS / self.product.operations)))
            return [seconds / repeats for seconds in self.least([made * repeats for made in commands])]
        finally:
            scratch.free()

    def least(self, every: list[list]) -> list[float]:
        """Least seconds of each recording. They take turns, so that what else uses the device slows all of them."""
        recordings = [self.device.record(commands) for commands in every]
        try:
            best = [float("inf")] * len(every)
            for _ in range(ROUNDS):
                for i, recording in enumerate(recordings):
                    begun = time.perf_counter()
                    recording.run()
                    best[i] = min(best[i], time.perf_counter() - begun)
            return best
        finally:
            for recording in recordings:
                recording.close()

    def close(self) -> None:
        for block in self.blocks:
            block.free()


def measure(device, shape: ProductShape, profile: Profile) -> tuple[int, ...]:
    """Numbers of the tile and parts of K of the best choice."""
    every = candidates(shape, profile)
    if 4 * shape.batch * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n) > MOST_BYTES:
        return *every[0][0].numbers, every[0][1]
    try:
        bench = Bench(device, shape, profile)
        try:
            seconds = bench.measure(every)
        finally:
            bench.close()
    except OutOfMemory:                             # the program itself may fit still
        return *every[0][0].numbers, every[0][1]
    best = min(range(len(every)), key=seconds.__getitem__)
    tile, parts = every[best if seconds[best] < HYSTERESIS * seconds[0] else 0]
    return *tile.numbers, parts


def tune(device, wanted: Iterable[ProductShape], profile: Profile) -> dict[str, tuple[int, ...]]:
    """Choices of the `wanted` products: those kept from before, and the others measured now and kept."""
    kept = load_tuning(device)
    wanted = list(wanted)
    peak = device.memory.peak
    new = {shape.key: measure(device, shape, profile) for shape in wanted if shape.key not in kept}
    device.memory.peak = max(peak, device.memory.used)          # what measuring took is no need of the programs
    if new:
        save_tuning(device, kept | new)
    return {shape.key: (kept | new)[shape.key] for shape in wanted}
