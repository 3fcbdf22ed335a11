"""Times every tile and split of the GPU matrix product on a device: what `choose_tile` rests on.

    python -m validation.sweep_gemm                             the products of issue-sized training steps
    python -m validation.sweep_gemm nt:1024,768,256 --all       every candidate, not only the best and the chosen one
    python -m validation.sweep_gemm --json FILE                 all readings

A product is recorded many times in one submission, each after a barrier, as in a step. PyTorch (CUDA, TF32 off) beside it where it is
installed. Errors are measured against float64 on products of up to 2^31 operations.
"""
from __future__ import annotations

import argparse
import json

import numpy as np

from hierarchos.graph.binding import bind
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.profile import profile_of
from hierarchos.kernels import gemm_gpu
from hierarchos.kernels.gemm_gpu import Tile
from hierarchos.kernels.gemm_layout import product_of
from hierarchos.kernels.launch import Lowering, Operand, row_major
from hierarchos.vulkan import open_device
from validation.bench_gemm import parse
from validation.command import exit_with
from validation.device_time import seconds_each

STEP = ["nt:1024,768,256", "nt:1024,256,256", "nt:1024,1376,256", "nt:1024,256,688", "nn:1024,688,256", "nn:1024,256,1376",
        "nn:1024,256,256", "nn:1024,256,768", "tn:256,688,1024", "tn:1376,256,1024", "tn:256,256,1024", "tn:768,256,1024",
        "nt:1024,4096,256", "nn:1024,256,4096", "tn:4096,256,1024"]
LARGER = ["nt:2048,960,576", "nt:2048,3072,576", "nt:2048,576,1536", "nn:2048,576,3072", "tn:3072,576,2048", "tn:960,576,2048",
          "nn:1024,1024,1024", "nn:2048,2048,2048", "nn:4096,4096,4096", "nt:4096,4096,4096", "tn:4096,4096,4096"]
CANDIDATES = [(128, 128, 8, 8, 8, 1), (128, 64, 16, 8, 8, 2), (128, 64, 32, 8, 8, 2), (64, 64, 32, 8, 8, 4), (64, 64, 32, 8, 4, 2),
              (64, 32, 32, 8, 4, 2), (32, 32, 32, 4, 4, 4), (32, 32, 32, 4, 4, 2)]      # besides those of gemm_gpu


def candidates(k: int) -> list[tuple[Tile, int]]:
    tiles = [*gemm_gpu.TILES, *gemm_gpu.MORE_TILES, *(Tile(*numbers) for numbers in CANDIDATES)]
    return [(tile, splits) for tile in tiles for splits in (1, 2, 4, 8) if splits == 1 or k >= splits * 128]


def place(device, kept: list, array: np.ndarray) -> tuple[int, Operand]:
    """An array in the device's own memory."""
    block = device.allocate(array.nbytes, "sweep")
    device.upload(block.address, array)
    kept.append(block)
    return block.address, Operand(array.shape, "f32", row_major(array.shape))


class Product:
    """One product with its operands on the device."""

    def __init__(self, device, text: str):
        self.device, self.text, self.kept, self.profile = device, text, [], profile_of(device)
        ta, tb, self.m, self.n, self.k = parse(text)
        random, (m, n, k) = np.random.default_rng(0), (self.m, self.n, self.k)
        self.a = random.standard_normal((k, m) if ta else (m, k), np.float32)
        self.b = random.standard_normal((n, k) if tb else (k, n), np.float32)
        self.op = MatMul(ta, tb)
        self.inputs = [place(device, self.kept, self.a), place(device, self.kept, self.b)]
        self.output = place(device, self.kept, np.zeros((m, n), np.float32))
        self.workspace, _ = place(device, self.kept, np.zeros(32 * m * n, np.float32))
        self.repeats = max(2, min(50, int(2e10 / self.operations)))
        self.truth = None
        if self.operations < 2**31:
            self.truth = (self.a.T if ta else self.a).astype(np.float64) @ (self.b.T if tb else self.b)

    @property
    def operations(self) -> float:
        return 2.0 * self.m * self.n * self.k

    def commands(self, choice) -> list:
        before, gemm_gpu.choose_tile = gemm_gpu.choose_tile, lambda *_: choice
        try:
            operands = [o for _, o in self.inputs]
            product, _, _ = product_of(self.op, operands, self.output[1], self.profile)
            launches, nbytes = gemm_gpu.lower(product, self.profile, 0)
        finally:
            gemm_gpu.choose_tile = before
        assert nbytes <= 128 * self.m * self.n
        return bind(Lowering(tuple(launches), nbytes), self.inputs, [self.output], self.workspace, "gemm")

    def measure(self, choice) -> dict:
        seconds = seconds_each(self.device, self.commands(choice), self.repeats, 4)
        tile, splits = choice
        row = {"product": self.text, "tile": (tile.m, tile.n, tile.k, tile.each_m, tile.each_n, tile.slices), "splits": splits,
               "us": 1e6 * seconds}
        if self.truth is not None:
            got = np.frombuffer(bytes(self.device.download(self.output[0], 4 * self.m * self.n)), np.float32).reshape(self.m, self.n)
            row["error"] = float(np.abs(got - self.truth).max())
        return row

    def pytorch(self) -> dict:
        """Microseconds and error of the same product in PyTorch on CUDA."""
        try:
            import torch
            assert torch.cuda.is_available()
        except (ImportError, AssertionError):
            return {}
        a, b = torch.from_numpy(self.a).cuda(), torch.from_numpy(self.b).cuda()
        a, b = a.T if self.op.transpose_a else a, b.T if self.op.transpose_b else b
        c = torch.empty(self.m, self.n, device="cuda")
        torch.matmul(a, b, out=c)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(self.repeats):
                torch.matmul(a, b, out=c)
        times = []
        for _ in range(4):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record(), graph.replay(), stop.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(stop))
        found = {"torch_us": 1e3 * min(times) / self.repeats}
        return found if self.truth is None else found | {"torch_error": float(np.abs(c.cpu().numpy() - self.truth).max())}

    def close(self) -> None:
        for block in self.kept:
            block.free()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("products", nargs="*", default=STEP + LARGER, help="layout:M,N,K, for example nt:1024,768,256")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--all", action="store_true", help="print every candidate")
    parser.add_argument("--most", type=int, default=3, help="print so many of the best")
    parser.add_argument("--chain", type=int, help="multiply-adds in one sequence, at most")
    parser.add_argument("--json", help="file for all readings")
    options = parser.parse_args()
    gemm_gpu.LONGEST_CHAIN = options.chain or gemm_gpu.LONGEST_CHAIN
    device, readings = open_device(options.device), []
    print(f"{device.info.name}, {device.info.driver}", flush=True)
    for text in options.products:
        product = Product(device, text)
        chosen = gemm_gpu.choose_tile(product.m, product.n, product.k, 1, product.profile)
        fitting = [(tile, splits) for tile, splits in candidates(product.k) if tile.shared_bytes <= product.profile.shared_bytes]
        every = (command for choice in fitting for command in product.commands(choice))
        device.pipelines.prepare((command.shader, command.constants) for command in every)      # side by side
        theirs = product.pytorch()
        rows = sorted((product.measure(choice) for choice in fitting), key=lambda row: row["us"])
        mine = product.measure(chosen)
        product.close()
        readings += [row | theirs for row in rows]
        rate = product.operations / 1e6
        other = f"PyTorch {theirs['torch_us']:.1f} us {rate / theirs['torch_us']:.1f} TFLOP/s" if theirs else ""
        print(f"{text:<20} {other}  chosen {mine['us']:.1f} us {mine['tile']} / {mine['splits']}; error {mine.get('error', 0):.1e} "
              f"({theirs.get('torch_error', 0):.1e})")
        for row in rows if options.all else rows[:options.most]:
            print(f"    {row['us']:8.1f} us {rate / row['us']:6.1f} TFLOP/s  {row['tile']} / {row['splits']} {row.get('error', 0):.1e}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(readings, file)


if __name__ == "__main__":
    exit_with(main)
