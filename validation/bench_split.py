"""Times fp32 products on matrix units (operands as two halves) with every tile, beside the fp32 kernels and PyTorch where CUDA is there.

    python -m validation.bench_split                            products of training steps, and cubes
    python -m validation.bench_split nt:8192,3072,576
    python -m validation.bench_split --check                    no times: errors of every tile at awkward sizes

A product is recorded many times in one submission, each after a barrier, as in a step, with the search for the largest operands. Errors:
rms against float64 in units of the rms of the result, beside those of our fp32 kernel (and of PyTorch on the processor).
"""
from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from hierarchos.graph.binding import bind
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.profile import profile_of
from hierarchos.kernels import gemm_gpu, gemm_split
from hierarchos.kernels.gemm_layout import product_of
from hierarchos.kernels.gemm_split import SplitTile
from hierarchos.kernels.launch import Lowering, Operand, row_major
from hierarchos.vulkan import open_device
from validation.bench_gemm import parse
from validation.command import exit_with
from validation.device_time import cuda_seconds, seconds_each

CUBES = ["nn:4096,4096,4096", "nt:4096,4096,4096", "tn:4096,4096,4096", "nn:1024,1024,1024"]
STEP = ["nt:2048,3072,576", "nn:2048,576,3072", "tn:3072,576,2048", "tn:576,1536,2048", "nt:2048,576,1536", "nn:2048,1536,576",
        "nt:2048,960,576", "tn:960,576,2048", "nt:2048,576,576", "tn:576,576,2048", "nt:1024,49152,576", "nn:1024,576,49152",
        "tn:49152,576,1024", "nt:8192,3072,576", "nn:8192,576,3072", "tn:3072,576,8192", "nt:4096,11264,2048", "nn:4096,2048,11264",
        "tn:11264,2048,4096"]
AWKWARD = ["nn:70,90,66", "nt:129,65,72", "tn:64,200,136", "nt:33,31,97", "tn:96,96,520", "tt:72,40,64", "nt:200,300,2000"]
CANDIDATES = [tile.numbers for tile in (*gemm_split.TILES, *gemm_split.MORE_TILES)] + [
    (128, 128, 32, 64, 64, 1), (128, 64, 32, 64, 32, 1), (64, 128, 32, 32, 64, 1), (64, 64, 64, 32, 32, 1), (32, 64, 32, 32, 16, 1),
    (128, 128, 16, 64, 32, 2), (64, 64, 32, 32, 32, 2), (32, 32, 32, 16, 16, 1)]


class Case:
    """One product with its operands on the device. spread: exponents of the operands' magnitudes lie in 2^-spread .. 1."""

    def __init__(self, device, profile, text: str, spread: float = 0.0):
        ta, tb, self.m, self.n, self.k = parse(text)
        m, n, k = self.m, self.n, self.k
        self.device, self.profile, self.text, self.kept = device, profile, text, []
        random = np.random.default_rng(0)
        self.a, self.b = (random.standard_normal(shape, np.float32) * np.exp2(-spread * random.random(shape, np.float32))
                          for shape in ((k, m) if ta else (m, k), (n, k) if tb else (k, n)))
        self.op, self.transposes = MatMul(ta, tb), (ta, tb)
        self.inputs = [self.place(x) for x in (self.a, self.b)]
        self.output = self.place(np.zeros((m, n), np.float32))
        self.workspace = self.place(np.zeros(16 * m * n + 1024 if m * n < 1 << 24 else 1024, np.float32))[0]

    def place(self, array: np.ndarray) -> tuple[int, Operand]:
        block = self.device.allocate(array.nbytes, "bench")
        self.device.upload(block.address, array)
        self.kept.append(block)
        return block.address, Operand(array.shape, "f32", row_major(array.shape))

    def commands(self, tile: SplitTile | None, splits: int = 1) -> list:
        """With the split kernel, or the fp32 kernel's own choice."""
        product, _, _ = product_of(self.op, [o for _, o in self.inputs], self.output[1], self.profile)
        made, nbytes = (gemm_gpu.lower(product, replace(self.profile, split=False), 0) if tile is None else
                        gemm_split.launches(product, tile, splits, self.profile, 0))
        return bind(Lowering(tuple(made), nbytes), self.inputs, [self.output], self.workspace, "gemm")

    def seconds(self, commands: list) -> float:
        repeats = max(2, min(100, int(2e12 / (2.0 * self.m * self.n * self.k))))
        return seconds_each(self.device, commands, repeats)

    def truth(self) -> np.ndarray:
        a, b = self.a.astype(np.float64), self.b.astype(np.float64)
        return (a.T if self.transposes[0] else a) @ (b.T if self.transposes[1] else b)

    def error(self, commands: list, truth: np.ndarray) -> tuple[float, float]:
        """(rms error in units of the rms of the result, largest error in the same units)."""
        self.device.record(commands).run()
        got = np.frombuffer(bytes(self.device.download(self.output[0], self.output[1].nbytes)), np.float32).reshape(self.m, self.n)
        return relative(got, truth)

    def pytorch(self) -> float | None:
        """Seconds of PyTorch's fp32 product; None without CUDA."""
        return cuda_seconds(self.tensors, self.transposes)

    def tensors(self) -> tuple:
        import torch

        return tuple(torch.from_numpy(x).cuda() for x in (self.a, self.b))


def relative(got: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    size, error = np.sqrt((truth**2).mean()), np.abs(got - truth)
    return float(np.sqrt((error**2).mean()) / size), float(error.max() / size)


def candidates(case: Case) -> list[tuple[SplitTile, int]]:
    """Tiles that fit, with parts of K where there are few outputs."""
    tiles = gemm_split.fitting(tuple({numbers: SplitTile(*numbers) for numbers in CANDIDATES}.values()), case.profile)
    few = case.m * case.n < 1 << 22
    return [(t, s) for t in tiles for s in gemm_split.SPLITS if s == 1 or (few and case.k >= s * 128)]


def name(tile: SplitTile, splits: int) -> str:
    return f"{tile.m}x{tile.n}x{tile.k}/{tile.warp_m}x{tile.warp_n}*{tile.buffers}/{splits}"


def check(device, profile, products: list[str], spread: float) -> None:
    for text in products:
        case = Case(device, profile, text, spread)
        truth = case.truth()
        a, b = case.a, case.b
        plain = relative((a.T if case.transposes[0] else a) @ (b.T if case.transposes[1] else b), truth)
        ours = case.error(case.commands(None), truth)
        used = {tile.numbers for tile in (*gemm_split.TILES, *gemm_split.MORE_TILES)}
        errors = {name(*pair): case.error(case.commands(*pair), truth) for pair in candidates(case) if pair[0].numbers in used}
        worst = max(errors, key=lambda key: errors[key][0])
        largest = max(error[1] for error in errors.values())
        print(f"{text}: {len(errors)} tiles, rms at most {errors[worst][0]:.2e}, largest {largest:.2e} ({worst}); "
              f"fp32 kernel {ours[0]:.2e}, {ours[1]:.2e}; NumPy {plain[0]:.2e}, {plain[1]:.2e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("products", nargs="*")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--spread", type=float, default=0.0)
    parser.add_argument("--top", type=int, default=4)
    options = parser.parse_args()
    device = open_device(options.device)
    profile = replace(profile_of(device), device_class="gpu")
    print(f"{device.info.name} ({device.info.driver}), matrices {profile.matrices}, {profile.shared_bytes} bytes of shared memory")
    if options.check:
        return check(device, profile, options.products or AWKWARD, options.spread)
    cases = [Case(device, profile, text) for text in options.products or CUBES + STEP]
    device.pipelines.prepare({(c.shader, c.constants) for case in cases for pair in candidates(case) for c in case.commands(*pair)})
    for case in cases:
        times = {pair: case.seconds(case.commands(*pair)) for pair in candidates(case)}
        operations = 2e-12 * case.m * case.n * case.k
        rows = sorted(times.items(), key=lambda item: item[1])[:options.top]
        chosen, parts = gemm_split.choose(case.m, case.n, case.k, profile)
        guess = gemm_split.microseconds(chosen, parts, case.m, case.n, case.k, profile)
        read = case.seconds(case.commands(chosen, parts))
        plain, theirs = case.seconds(case.commands(None)), case.pytorch()
        print(f"{case.text} fp32 kernel {1e6 * plain:.1f} us ({operations / plain:.0f} TFLOP/s)"
              + (f", PyTorch {1e6 * theirs:.1f} us ({operations / theirs:.0f})" if theirs else ""), flush=True)
        print(f"    chosen {name(chosen, parts)}: {1e6 * read:.1f} us, expected {guess:.1f}")
        for pair, seconds in rows:
            print(f"    {name(*pair)}: {1e6 * seconds:.1f} us, {operations / seconds:.0f} TFLOP/s", flush=True)


if __name__ == "__main__":
    exit_with(main)
