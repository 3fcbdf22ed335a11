"""Measures matrix products on a device, and on PyTorch's CPU where that is installed.

    python -m validation.bench_gemm                     512^3 in its four layouts and the shapes of a small training step
    python -m validation.bench_gemm 4096,4096,4096 tn:256,1024,8192
    python -m validation.bench_gemm --device 1 --json
    python -m validation.bench_gemm --cpu-time          a software driver on a machine that other work shares

A line a product: the best of several runs, GFLOP/s, error against float64, and the ratio to PyTorch (time / time). With
--cpu-time: CPU time of this process divided by its cores, without PyTorch, whose threads spin while they wait.
"""
from __future__ import annotations

import argparse
import json
import os
import time

import numpy as np

from hierarchos.graph.binding import bind
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.profile import profile_of
from hierarchos.kernels.launch import Operand, row_major
from hierarchos.vulkan import open_device
from validation.command import exit_with

DEFAULT = ["nn:512,512,512", "nt:512,512,512", "tn:512,512,512", "tt:512,512,512", "nt:64,128,128", "nt:64,512,128", "nt:64,1000,128",
           "nn:64,128,512", "tn:128,512,64", "tn:1000,128,64", "nt:1,512,512"]


def parse(text: str) -> tuple[bool, bool, int, int, int]:
    """(transpose a, transpose b, m, n, k) of "tn:M,N,K"; the layout may be left out."""
    layout, _, sizes = text.rpartition(":")
    try:
        m, n, k = (int(size) for size in sizes.split(","))
        ta, tb = {"n": False, "t": True}[(layout or "nn")[0]], {"n": False, "t": True}[(layout or "nn")[1]]
    except (ValueError, KeyError, IndexError):
        raise SystemExit(f"{text} is not a product; write for example tn:256,1024,8192 (layout:M,N,K)") from None
    return ta, tb, m, n, k


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def best_time(run, cpu_time: bool = False, seconds: float = 0.4, most: int = 50) -> float:
    """Shortest of repeated runs, after one that compiles and warms up."""
    run()
    clock = (lambda: time.process_time() / cores()) if cpu_time else time.perf_counter
    times, start = [], time.perf_counter()
    while len(times) < 3 or (len(times) < most and time.perf_counter() - start < seconds):
        before = clock()
        run()
        times.append(clock() - before)
    return min(times)


def place(device, kept: list, array: np.ndarray) -> tuple[int, Operand]:
    block = device.allocate(array.nbytes, "bench", host_visible=True)
    device.upload(block.address, array)
    kept.append(block)
    return block.address, Operand(array.shape, "f32", row_major(array.shape))


def measure(device, text: str, repeats: int, cpu_time: bool) -> dict:
    """One row of the table. `repeats` products are recorded in one submission, so that its cost does not count."""
    ta, tb, m, n, k = parse(text)
    random = np.random.default_rng(0)
    a = random.standard_normal((k, m) if ta else (m, k)).astype(np.float32)
    b = random.standard_normal((n, k) if tb else (k, n)).astype(np.float32)
    op, kept, profile = MatMul(ta, tb), [], profile_of(device)
    inputs = [place(device, kept, a), place(device, kept, b)]
    output = place(device, kept, np.zeros((m, n), np.float32))
    lowering = op.lower([o for _, o in inputs], [output[1]], profile)
    workspace, _ = place(device, kept, np.zeros(max(1, lowering.workspace // 4), np.float32))
    recorded = device.record(bind(lowering, inputs, [output], workspace, "gemm") * repeats)
    seconds = best_time(recorded.run, cpu_time) / repeats
    got = np.frombuffer(bytes(device.download(output[0], 4 * m * n)), np.float32).reshape(m, n)
    truth = (a.T if ta else a).astype(np.float64) @ (b.T if tb else b)
    row = {"product": text, "ms": 1e3 * seconds, "gflops": 2e-9 * m * n * k / seconds, "error": float(np.abs(got - truth).max())}
    return row if cpu_time else row | beside_torch(a.T if ta else a, b.T if tb else b, truth, seconds)


def beside_torch(a: np.ndarray, b: np.ndarray, truth: np.ndarray, seconds: float) -> dict:
    """PyTorch's speed and error on the same operands, with as many threads as the process may use; nothing without PyTorch."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(cores())
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    theirs = best_time(lambda: x @ y)
    error = float(np.abs((x @ y).numpy() - truth).max())
    return {"torch_ms": 1e3 * theirs, "ratio": seconds / theirs, "torch_error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("products", nargs="*", default=DEFAULT, help="layout:M,N,K, for example nt:64,512,128")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=4, help="products in one submission")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = open_device(options.device)
    rows = [measure(device, text, options.repeats, options.cpu_time) for text in options.products]
    if options.json:
        print(json.dumps([{**row, "device": device.info.name, "driver": device.info.driver} for row in rows], indent=1))
        return
    print(f"{device.info.name} ({device.info.driver})")
    print("| product | ms | GFLOP/s | max error | PyTorch ms | PyTorch error | ratio |\n| --- | --- | --- | --- | --- | --- | --- |")
    for r in rows:
        theirs = f"{r['torch_ms']:.3f} | {r['torch_error']:.1e} | {r['ratio']:.1f}" if "ratio" in r else "- | - | -"
        print(f"| {r['product']} | {r['ms']:.3f} | {r['gflops']:.1f} | {r['error']:.1e} | {theirs} |")


if __name__ == "__main__":
    exit_with(main)
