"""The other side of `hierarchos bench`: the same workloads in PyTorch, one JSON line each.

    python -m validation.bench_torch NAME [BUDGET_SECONDS] [--device cuda] [--compile]

Development only; TF32 stays off.
"""
from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F

from pipelines.bench.workloads import REPEAT, WORKLOADS

KINDS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def product(n: int, device: str, kind: torch.dtype):
    a, b = (torch.randn(n, n, device=device).to(kind) for _ in range(2))
    c = torch.empty(n, n, device=device, dtype=kind)

    def step():
        for _ in range(REPEAT):
            torch.matmul(a, b, out=c)

    return step, REPEAT


class Block(torch.nn.Module):
    """One layer of the GPT-2-like or the Llama workload."""

    def __init__(self, width: int, inner: int, heads: int, keys: int, gated: bool):
        super().__init__()
        self.heads, self.keys, self.gated = heads, keys, gated
        norm = torch.nn.RMSNorm if gated else torch.nn.LayerNorm
        self.norm1, self.norm2 = norm(width, eps=1e-5), norm(width, eps=1e-5)
        narrow = width // heads * keys
        self.q, self.o = (torch.nn.Linear(width, width, bias=not gated) for _ in range(2))
        self.k, self.v = (torch.nn.Linear(width, narrow, bias=not gated) for _ in range(2))
        self.up, self.down = torch.nn.Linear(width, inner, bias=not gated), torch.nn.Linear(inner, width, bias=not gated)
        self.gate = torch.nn.Linear(width, inner, bias=False) if gated else None

    def forward(self, x, cos, sin):
        rows, length, width = x.shape
        h = self.norm1(x)
        counts = (self.q, self.heads), (self.k, self.keys), (self.v, self.keys)
        q, k, v = (part(h).view(rows, length, count, -1).transpose(1, 2) for part, count in counts)
        if self.gated:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.keys != self.heads)
        x = x + self.o(a.transpose(1, 2).reshape(rows, length, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h) if self.gated else F.gelu(self.up(h), approximate="tanh"))


def rotate(x, cos, sin):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Transformer(torch.nn.Module):
    def __init__(self, s, gated: bool):
        super().__init__()
        self.tokens = torch.nn.Embedding(s.vocabulary, s.width)
        self.positions = None if gated else torch.nn.Parameter(torch.randn(s.length, s.width) * 0.02)
        self.layers = torch.nn.ModuleList(Block(s.width, s.inner, s.heads, s.keys, gated) for _ in range(s.layers))
        self.norm = (torch.nn.RMSNorm if gated else torch.nn.LayerNorm)(s.width, eps=1e-5)
        self.head = torch.nn.Linear(s.width, s.vocabulary, bias=not gated)
        if s.tied:
            self.head.weight = self.tokens.weight
        half = s.width // s.heads // 2
        angles = torch.arange(s.length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x)).flatten(0, 1)


def training(name: str, device: str, compiled: bool, kind: torch.dtype):
    feeds = WORKLOADS[name].feeds(np.random.default_rng(0))
    inputs = torch.tensor(feeds["x"] if name == "mlp" else feeds["ids"], device=device)
    targets = torch.tensor(feeds["targets"], device=device).long()
    if name == "mlp":
        model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    else:
        inputs = inputs.long()
        model = Transformer(WORKLOADS[name].sizes, not name.startswith("gpt"))
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad()
        with torch.autocast(device, kind, enabled=kind != torch.float32):
            loss = F.cross_entropy(forward(inputs), targets)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step, 1


def attention(name: str, device: str, kind: torch.dtype):
    rng = np.random.default_rng(0)
    rows, length, heads, width = 1, int(name[9:]), 16, 64
    q, k, v, g = (torch.tensor(rng.standard_normal((rows, length, heads, width)), dtype=kind, device=device) for _ in range(4))
    leaves = [t.requires_grad_() for t in (q, k, v)]

    def step():
        out = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in leaves), is_causal=True)
        torch.autograd.grad(out, leaves, g.transpose(1, 2))

    return step, 1


def workload(name: str, device: str, compiled: bool, kind: torch.dtype):
    """A function that runs it once, and how many products that does."""
    if name.startswith("matmul"):
        return product(int(name[6:]), device, kind)
    return attention(name, device, kind) if name.startswith("attention") else training(name, device, compiled, kind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("budget", nargs="?", type=float, default=2.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=KINDS, help="a half format: under autocast; no gradient scaler")
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args()
    begun = time.perf_counter()
    step, repeat = workload(given.name, given.device, given.compile, KINDS[given.precision])
    synchronise = torch.cuda.synchronize if given.device == "cuda" else lambda: None
    step(), synchronise()
    setup = time.perf_counter() - begun
    step(), step(), synchronise()
    times, end = [], time.perf_counter() + given.budget
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 500):
        begun = time.perf_counter()
        step(), synchronise()
        times.append(time.perf_counter() - begun)
    print(json.dumps({"name": given.name, "milliseconds": 1e3 * min(times) / repeat, "median": 1e3 * statistics.median(times) / repeat,
                      "runs": len(times), "setup_seconds": setup, "torch": torch.__version__, "threads": torch.get_num_threads(),
                      "peak_bytes": torch.cuda.max_memory_allocated() if given.device == "cuda" else 0}))


if __name__ == "__main__":
    main()
