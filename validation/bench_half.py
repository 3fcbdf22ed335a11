"""Times matrix products on matrix units with every tile, beside PyTorch's of the same format where CUDA is there.

    python -m validation.bench_half                                 4096^3 and the products of two training steps
    python -m validation.bench_half nt:8192,3072,576 --format bf16
    python -m validation.bench_half --check                         no times: errors of every tile at awkward sizes

A product is recorded many times in one submission, each after a barrier, as in a step. Errors: against float64 of the rounded operands.
"""
from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from hierarchos.graph.binding import bind
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.profile import profile_of
from hierarchos.kernels import gemm_half
from hierarchos.kernels.gemm_half import Tile
from hierarchos.kernels.gemm_layout import product_of
from hierarchos.kernels.half import from_bits, to_bits
from hierarchos.kernels.launch import Lowering, Operand, row_major
from hierarchos.kernels.matrix_units import matrix_shape
from hierarchos.vulkan import open_device
from validation.bench_gemm import parse
from validation.command import exit_with
from validation.device_time import cuda_seconds, seconds_each

LARGE = ["nn:4096,4096,4096", "nt:4096,4096,4096", "tn:4096,4096,4096"]
STEP = ["nt:8192,3072,576", "nn:8192,576,3072", "tn:3072,576,8192", "nt:8192,960,576", "nt:8192,576,1536", "tn:576,1536,8192",
        "nt:1024,49152,576", "nt:4096,11264,2048", "tn:11264,2048,4096"]
AWKWARD = ["nn:70,90,50", "nt:129,65,72", "tn:64,200,136", "nt:33,31,17", "tn:96,96,520", "tt:72,40,64"]
CANDIDATES = [(128, 128, 32, 64, 32, 2), (128, 128, 32, 64, 64, 2), (128, 128, 64, 64, 32, 1), (128, 128, 64, 64, 64, 1),
              (128, 96, 32, 64, 48, 2), (128, 96, 64, 64, 48, 1), (128, 192, 32, 64, 48, 1), (64, 96, 32, 32, 48, 2),
              (128, 256, 32, 64, 64, 1), (256, 128, 32, 64, 64, 1), (128, 64, 32, 32, 32, 2), (64, 64, 32, 32, 32, 2),
              (64, 64, 64, 32, 32, 2), (64, 128, 32, 32, 64, 2), (32, 32, 32, 16, 16, 2)]


class Case:
    """One product with its operands on the device. profile: what the launches are made for."""

    def __init__(self, device, profile, text: str, dtype: str, result: str = "f32"):
        ta, tb, self.m, self.n, self.k = parse(text)
        m, n, k = self.m, self.n, self.k
        self.device, self.profile, self.text, self.dtype, self.result, self.kept = device, profile, text, dtype, result, []
        random = np.random.default_rng(0)
        self.a = to_bits(random.standard_normal((k, m) if ta else (m, k), np.float32), dtype)
        self.b = to_bits(random.standard_normal((n, k) if tb else (k, n), np.float32), dtype)
        self.op, self.transposes = MatMul(ta, tb), (ta, tb)
        self.inputs = [self.place(x, dtype) for x in (self.a, self.b)]
        self.output = self.place(np.zeros((m, n), np.float32 if result == "f32" else np.uint16), result)
        self.workspace = self.place(np.zeros(16 * m * n if m * n < 1 << 24 else 1, np.float32), "f32")[0]

    def place(self, array: np.ndarray, dtype: str) -> tuple[int, Operand]:
        block = self.device.allocate(array.nbytes, "bench")
        self.device.upload(block.address, array)
        self.kept.append(block)
        return block.address, Operand(array.shape, dtype, row_major(array.shape))

    def commands(self, tile: Tile, splits: int = 1) -> list:
        operands = [o for _, o in self.inputs]
        product, _, _ = product_of(self.op, operands, self.output[1], self.profile)
        chosen, gemm_half.choose_tile = gemm_half.choose_tile, lambda *_: (tile, splits)
        try:
            launches, nbytes = gemm_half.lower_half_product(product, self.dtype, self.result, self.profile)
        finally:
            gemm_half.choose_tile = chosen
        return bind(Lowering(tuple(launches), nbytes), self.inputs, [self.output], self.workspace, "gemm")

    def chosen(self) -> tuple[Tile, int]:
        product, _, _ = product_of(self.op, [o for _, o in self.inputs], self.output[1], self.profile)
        return gemm_half.choose_tile(product, self.transposes, matrix_shape(self.profile, self.dtype), self.result, self.profile)

    def seconds(self, tile: Tile, splits: int = 1) -> float:
        repeats = max(2, min(100, int(4e12 / (2.0 * self.m * self.n * self.k))))
        return seconds_each(self.device, self.commands(tile, splits), repeats)

    def error(self, tile: Tile, splits: int = 1) -> float:
        """Largest error, in units of the last place of a result of its size in the format, or absolute for f32."""
        self.device.record(self.commands(tile, splits)).run()
        raw = self.device.download(self.output[0], self.output[1].nbytes)
        raw = np.frombuffer(bytes(raw), np.float32 if self.result == "f32" else np.uint16).reshape(self.m, self.n)
        got = raw if self.result == "f32" else from_bits(raw, self.result)
        a, b = (from_bits(x, self.dtype).astype(np.float64) for x in (self.a, self.b))
        truth = (a.T if self.transposes[0] else a) @ (b.T if self.transposes[1] else b)
        return float((np.abs(got - truth) / (1 if self.result == "f32" else np.maximum(1, np.abs(truth)))).max())

    def pytorch(self) -> float | None:
        """Seconds of PyTorch's product of the same format; None without CUDA."""
        return cuda_seconds(self.tensors, self.transposes)

    def tensors(self) -> tuple:
        import torch

        kind = torch.float16 if self.dtype == "f16" else torch.bfloat16
        return tuple(torch.from_numpy(from_bits(x, self.dtype)).cuda().to(kind) for x in (self.a, self.b))


def fits(tile: Tile, case: Case) -> bool:
    """Whether the device has the shared memory for a tile, and each invocation something to load."""
    shape, loads = matrix_shape(case.profile, case.dtype), 8 * tile.subgroups * case.profile.subgroup
    return tile.shared_bytes(*case.transposes, shape[0]) <= case.profile.shared_bytes and min(tile.m, tile.n) * tile.k >= loads


def candidates(case: Case) -> list[tuple[Tile, int]]:
    tiles = [Tile(*numbers) for numbers in CANDIDATES]
    few = case.text.startswith("tn") and case.m * case.n < 1 << 21 and case.result == "f32"
    splits = [s for s in (1, 2, 4, 8) if s == 1 or (few and case.k >= s * 256)]
    return [(tile, s) for tile in tiles if fits(tile, case) for s in splits]


def check(device, profile, dtype: str, products: list[str]) -> None:
    """Errors of every tile."""
    cases = [Case(device, profile, text, dtype, result) for text in products for result in ("f32", dtype)]
    device.pipelines.prepare({(c.shader, c.constants) for case in cases for pair in candidates(case) for c in case.commands(*pair)})
    for case in cases:
        text, result = case.text, case.result
        errors = {f"{t.m}x{t.n}x{t.k}/{t.warp_m}x{t.warp_n}*{t.buffers}/{s}": case.error(t, s)
                  for t, s in candidates(case)}
        worst = max(errors, key=errors.get)
        print(f"{text} {dtype} -> {result}: {len(errors)} tiles, worst {errors[worst]:.2e} ({worst})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("products", nargs="*")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--format", default="f16", choices=("f16", "bf16"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--all", action="store_true", help="a line for each tile")
    options = parser.parse_args()
    device = open_device(options.device)
    profile = replace(profile_of(device), device_class="gpu")
    print(f"{device.info.name} ({device.info.driver}), matrices {profile.matrices}")
    if options.check:
        return check(device, profile, options.format, options.products or AWKWARD)
    cases = [Case(device, profile, text, options.format) for text in options.products or LARGE + STEP]
    device.pipelines.prepare({(c.shader, c.constants) for case in cases for pair in candidates(case) for c in case.commands(*pair)})
    for case in cases:
        text = case.text
        times = {(t, s): case.seconds(t, s) for t, s in candidates(case)}
        operations = 2e-12 * case.m * case.n * case.k
        rows = sorted(times.items(), key=lambda item: item[1])
        for (t, s), seconds in rows if options.all else rows[:3]:
            print(f"{text} {options.format} {t.m}x{t.n}x{t.k} warp {t.warp_m}x{t.warp_n} *{t.buffers} /{s}: {1e6 * seconds:.1f} us, "
                  f"{operations / seconds:.0f} TFLOP/s", flush=True)
        pick, theirs = case.chosen(), case.pytorch()
        mine = case.seconds(*pick)
        beside = f", PyTorch {1e6 * theirs:.1f} us ({operations / theirs:.0f} TFLOP/s), ratio {theirs / mine:.2f}" if theirs else ""
        print(f"{text} {options.format} chosen {pick[0].m}x{pick[0].n}x{pick[0].k} /{pick[1]}: {1e6 * mine:.1f} us, "
              f"{operations / mine:.0f} TFLOP/s (best {1e6 * rows[0][1]:.1f} us){beside}", flush=True)


if __name__ == "__main__":
    exit_with(main)
