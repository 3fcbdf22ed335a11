"""Times the kernels of attention, forward and backward, on a GPU: causal; PyTorch (CUDA) beside them where it is installed.

    python -m validation.bench_attention                         the shapes of the table in docs/performance.md
    python -m validation.bench_attention 1,2048,16,16,64 --blocks --device nvidia --json
                                                                 batch, length, heads, key heads, channels; every kernel and block
    python -m validation.bench_attention --format bf16           of halves

Each kernel is repeated in one recording, each after a barrier. TFLOP/s count pairs that are seen: 2 products forward, 3 in dq, 4 in dk, dv.
"""
from __future__ import annotations

import argparse
import json
import time

import numpy as np

from hierarchos.graph.binding import bind
from hierarchos.graph.ops.half import HalfAttention, HalfAttentionBackward
from hierarchos.graph.profile import profile_of
from hierarchos.kernels import attention
from hierarchos.kernels import attention_blocks as blocks
from hierarchos.kernels import attention_tiles as tiles
from hierarchos.kernels import attention_units as units
from hierarchos.kernels.attention_arguments import pairs
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.half import to_bits
from hierarchos.kernels.launch import Operand
from hierarchos.vulkan import open_device
from validation.command import exit_with
from validation.device_time import EMPTY
from validation.sweep_gemm import place

SHAPES = ("1,2048,16,16,64", "8,1024,9,3,64", "4,512,9,3,64", "4,1024,32,4,64", "8,128,8,8,32", "1,2048,16,16,128")
PRODUCTS = {"forward": 1.0, "dq": 1.5, "dkv": 2.0}  # operations of each kernel as multiples of the forward pass
UNITS = (((8, 64, 1), (8, 64, 1), (8, 32, 1)), ((8, 32, 2), (8, 32, 2), (8, 32, 2)), ((8, 64, 2), (8, 16, 2), (8, 16, 2)),
         ((4, 64, 1), (4, 64, 1), (4, 32, 1)), ((4, 32, 2), (4, 32, 2), (4, 32, 2)), ((4, 64, 2), (4, 32, 1), (4, 16, 2)),
         ((8, 32, 1), (8, 32, 1), (8, 64, 1)), ((4, 32, 1), (4, 64, 2), (4, 64, 1)))       # Unit: forward, dq, dk and dv
OPERATIONS = 2e10                                   # of one recording, about


class Problem:
    """One attention with its operands on the device, of numbers of one format."""

    def __init__(self, device, text: str, dtype: str):
        self.dtype = dtype
        batch, length, heads, key_heads, width = map(int, text.split(","))
        self.device, self.text, self.kept, self.profile = device, text, [], profile_of(device)
        self.rule, self.shape = AttentionRule(width**-0.5), AttentionShape(batch, length, length, heads, key_heads, width, width)
        random, rows = np.random.default_rng(0), {"q": heads, "k": key_heads, "v": key_heads, "dout": heads}
        inputs = {name: self.placed(random.standard_normal((batch, length, n, width), np.float32)) for name, n in rows.items()}
        self.out, self.lse = self.placed(np.zeros((batch, length, heads, width), np.float32)), self.zeros(batch, heads, length)
        self.gradients = [self.placed(np.zeros((batch, length, n, width), np.float32)) for n in (heads, key_heads, key_heads)]
        self.forward_inputs = [inputs[name] for name in "qkv"]
        self.backward_inputs = [*self.forward_inputs, self.out, self.lse, inputs["dout"]]
        self.workspace = self.zeros(max(1 << 20, 32 * batch * length * heads * (width + 1)))[0]
        self.operations = 4.0 * pairs(self.rule, self.shape) * width          # of the forward pass
        self.repeats = max(10, min(40, int(OPERATIONS / self.operations)))

    def placed(self, array: np.ndarray):
        address, operand = place(self.device, self.kept, array if self.dtype == "f32" else to_bits(array, self.dtype))
        return address, Operand(operand.shape, self.dtype, operand.strides)

    def zeros(self, *shape: int):
        return place(self.device, self.kept, np.zeros(shape, np.float32))

    def commands(self, forward, backward) -> tuple[list, list]:
        def made(lower, inputs: list, outputs: list) -> list:
            lowering = lower(self.rule, self.shape, [operand for _, operand in inputs], self.profile)
            return bind(lowering, inputs, outputs, self.workspace, "attention")

        return made(forward, self.forward_inputs, [self.out, self.lse]), made(backward, self.backward_inputs, self.gradients)

    def least(self, commands: list) -> float:
        """Microseconds of one execution."""
        recording, best = self.device.record(commands * self.repeats), float("inf")
        for _ in range(5):
            begun = time.perf_counter()
            recording.run()
            best = min(best, time.perf_counter() - begun)
        recording.close()
        return 1e6 * (best - EMPTY) / self.repeats

    def measure(self, name: str, forward, backward) -> dict:
        """Microseconds of the kernels."""
        first, second = self.commands(forward, backward)
        self.device.pipelines.prepare((c.shader, c.constants) for c in first + second)
        self.device.execute(first + second)
        found = dict.fromkeys((*PRODUCTS, "rest"), 0.0)
        for command in first + second:
            found[part_of(command.label)] += self.least([command])
        rates = {part: factor * self.operations / found[part] / 1e6 for part, factor in PRODUCTS.items()}
        return {"shape": self.text, "kernels": name, "us": found, "all": sum(found.values()), "tflops": rates}

    def pytorch(self) -> float | None:
        """Microseconds of scaled_dot_product_attention and its gradients."""
        try:
            import torch
            assert torch.cuda.is_available()
        except (ImportError, AssertionError):
            return None
        s, kind = self.shape, {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[self.dtype]
        q, k, v = (torch.randn(s.batch, heads, s.queries, s.width, device="cuda", requires_grad=True, dtype=kind)
                   for heads in (s.heads, s.key_heads, s.key_heads))
        gradient, best = torch.randn_like(q), float("inf")
        for _ in range(5):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(5):
                torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=s.group > 1).backward(gradient)
            torch.cuda.synchronize()
            best = min(best, time.perf_counter() - begun)
        return 1e6 * best / 5

    def close(self) -> None:
        for block in self.kept:
            block.free()


def part_of(label: str) -> str:
    """The column that a launch counts for."""
    words = set(label.split())
    if words & {"delta", "halves", "combine", "sum"}:
        return "rest"
    return "dkv" if "dk" in words else "dq" if "dq" in words else "forward"


def variants(problem: Problem, every: bool) -> list[tuple[str, object, object]]:
    """Names and lowerings to time: those that a program would take, or all that are there."""
    rule, shape, profile = problem.rule, problem.shape, problem.profile
    if problem.dtype != "f32":
        forward, backward = HalfAttention(rule, format=problem.dtype), HalfAttentionBackward(rule, format=problem.dtype)
        chosen = [("chosen", lambda *_: half(forward, problem.forward_inputs, profile),
                   lambda *_: half(backward, problem.backward_inputs, profile))]
    else:
        chosen = [("chosen", lambda *a: attention.attention(rule, a[2], [], profile),
                   lambda *a: attention.attention_backward(rule, a[2], [], profile))]
    if not every:
        return chosen
    planes = 2 if problem.dtype == "f32" else 1
    planes, found = 2 if problem.dtype == "f32" else 1, []
    for some in UNITS if profile.layouts else ():
        if max(units.Unit(*numbers).shared_bytes(shape.width, planes, 16) for numbers in some) <= profile.shared_bytes:
            found.append((f"units {', '.join(map(str, some))}", *(with_units(lower, planes, some) for lower in chosen[0][1:])))
    if problem.dtype != "f32":
        return found
    found.append(("tiles", tiles.tiles_forward, tiles.tiles_backward))
    if not blocks.fits(shape, profile, backward=True):
        return found
    tiled = [blocks.Block(each, chunk, blocks.deep(shape)) for each in (4, 8) for chunk in (8, 16)]
    return [*found, *((f"blocks, {block.each} x 8, chunks of {block.chunk}", with_block(blocks.blocks_forward, block),
                       with_block(blocks.blocks_backward, block)) for block in tiled
                      if max(block.forward_bytes, block.backward_bytes(2)) <= profile.shared_bytes)]


def half(op, inputs: list, profile):
    return op.lower([operand for _, operand in inputs], [], profile)


def with_units(lower, planes: int, numbers: tuple[tuple[int, ...], ...]):
    """The lowering with these units for the forward pass, dq, dk and dv."""
    made_of = {(kernel, planes): (units.Unit(*some),) * 2 for kernel, some in zip(("forward", "rows", "keys"), numbers, strict=True)}

    def made(*arguments):
        before = dict(units.UNITS)
        try:
            units.UNITS |= made_of
            return lower(*arguments)
        finally:
            units.UNITS |= before
    return made


def with_block(lower, block: blocks.Block):
    """The lowering with this block."""
    def made(*arguments):
        before = blocks.EACH, blocks.CHUNKS
        blocks.EACH, blocks.CHUNKS = block.each, (block.chunk,)
        try:
            return lower(*arguments)
        finally:
            blocks.EACH, blocks.CHUNKS = before
    return made


def line(row: dict) -> str:
    rates = {part: f" ({rate:.1f})" for part, rate in row["tflops"].items()}
    parts = ", ".join(f"{part} {us:.1f}{rates.get(part, '')}" for part, us in row["us"].items())
    return f"  {row['kernels']:<28} {row['all']:9.1f} us: {parts}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=SHAPES, help="batch,length,heads,key heads,channels")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--blocks", action="store_true", help="every kernel with every block")
    parser.add_argument("--format", default="f32", choices=("f32", "f16", "bf16"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    with open_device(options.device) as device:
        if not options.json:
            print(f"{device.info.name}, {device.info.driver}; microseconds (TFLOP/s)")
        for text in options.shapes:
            problem = Problem(device, text, options.format)
            theirs = problem.pytorch()
            if not options.json:
                print(text + (f"   PyTorch {theirs:.1f} us" if theirs else ""), flush=True)
            for variant in variants(problem, options.blocks):
                rows.append(problem.measure(*variant) | {"pytorch_us": theirs})
                if not options.json:
                    print(line(rows[-1]), flush=True)
            problem.close()
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    exit_with(main)
