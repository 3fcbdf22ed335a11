"""Errors of the attention kernels for GPUs with fp32 operands, against float64 and beside NumPy in float32.

    python -m validation.attention_errors [--device auto] [1,1024,1024,2,2,64 ...]

A case is batch, queries, keys, heads, key heads, channels, and then words: segments, window=N, spread=N (magnitudes lie in 2^-N .. 1); all
are causal. A line is the root mean square error of out, log-sum-exp, dq, dk and dv in units of the result's. Kernels: pairs of halves on
matrix units, where the device has them, and fp32 on register blocks; both also below the sizes from which programs take them. Development
only.
"""
from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from hierarchos.graph.binding import bind
from hierarchos.graph.matrix_layouts import layouts_of
from hierarchos.graph.profile import profile_of
from hierarchos.kernels import attention_blocks as blocks
from hierarchos.kernels import attention_split as split
from hierarchos.kernels.attention_reference import attention_backward_reference, attention_reference
from hierarchos.kernels.attention_rule import AttentionRule, AttentionShape
from hierarchos.kernels.launch import Operand, row_major
from hierarchos.vulkan import open_device
from validation.command import exit_with

CASES = ("1,200,200,2,1,64", "2,130,257,4,2,64,segments", "1,300,300,2,2,64,window=50", "1,1024,1024,2,2,64",
         "1,1024,1024,2,2,64,spread=12", "1,77,77,2,2,48", "2,70,90,2,2,16,segments")
NAMES = "out", "lse", "dq", "dk", "dv"


class Case:
    """Operands, rule and the truth of one attention."""

    def __init__(self, text: str):
        *sizes, words = [*text.split(",")[:6], text.split(",")[6:]]
        batch, queries, keys, heads, key_heads, width = map(int, sizes)
        options = dict((*word.split("="), "1")[:2] for word in words)
        random, spread = np.random.default_rng(0), int(options.get("spread", 0))

        def drawn(lines: int, count: int) -> np.ndarray:
            shape = batch, lines, count, width
            return (random.standard_normal(shape) * np.exp2(-spread * random.random(shape))).astype(np.float32)
        self.text, self.arrays = text, [drawn(queries, heads), drawn(keys, key_heads), drawn(keys, key_heads), drawn(queries, heads)]
        self.optional = {name: np.sort(random.integers(0, 3, (batch, count)), 1).astype(np.int32)
                         for name, count in (("segments_q", queries), ("segments_k", keys))} if "segments" in options else {}
        self.rule = AttentionRule(width**-0.5, window=int(options["window"]) if "window" in options else None, segments=bool(self.optional))
        self.shape = AttentionShape.of(*(x.shape for x in self.arrays[:3]))
        self.truth, self.plain = self.twin(np.float64), self.twin(np.float32)

    def twin(self, kind) -> list[np.ndarray]:
        q, k, v, g = (x.astype(kind) for x in self.arrays)
        out, lse = attention_reference(self.rule, q, k, v, self.optional)
        return [out, lse, *attention_backward_reference(self.rule, q, k, v, out, lse, g, self.optional)]

    def line(self, name: str, got: list[np.ndarray]) -> str:
        errors = []
        for ours, exact in zip(got, self.truth, strict=True):
            seen = np.abs(exact) < 1e30
            errors.append(np.sqrt(((ours - exact)[seen] ** 2).mean() / (exact[seen] ** 2).mean()))
        return f"  {name:<12} " + ", ".join(f"{part} {error:.2e}" for part, error in zip(NAMES, errors, strict=True))


class Runner:
    """Runs lowerings on a device and reads what they leave."""

    def __init__(self, device, profile):
        self.device, self.profile, self.kept = device, profile, []

    def place(self, array: np.ndarray) -> tuple[int, Operand]:
        self.kept.append(self.device.allocate(max(array.nbytes, 256), "errors"))
        self.device.upload(self.kept[-1].address, np.ascontiguousarray(array))
        return self.kept[-1].address, Operand(array.shape, "i32" if array.dtype == np.int32 else "f32", row_major(array.shape))

    def run(self, lowering, inputs: list, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
        outputs = [self.place(np.zeros(shape, np.float32)) for shape in shapes]
        workspace, _ = self.place(np.zeros(lowering.workspace // 4 + 64, np.float32))
        self.device.record(bind(lowering, inputs, outputs, workspace)).run()
        return [np.frombuffer(bytes(self.device.download(address, o.nbytes)), np.float32).reshape(o.shape) for address, o in outputs]

    def results(self, case: Case, forward, backward) -> list[np.ndarray]:
        q, k, v, g = (self.place(x) for x in case.arrays)
        more, s = [self.place(x) for x in case.optional.values()], case.shape
        out, lse = self.run(forward([o for _, o in (q, k, v)]), [q, k, v, *more], [q[1].shape, (s.batch, s.heads, s.queries)])
        bound = [q, k, v, self.place(out), self.place(lse), g, *more]
        gradients = self.run(backward([o for _, o in bound]), bound, [x[1].shape for x in (q, k, v)])
        for block in self.kept:
            block.free()
        self.kept.clear()
        return [out, lse, *gradients]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--device", default="auto")
    options, split.FEWEST_LINES = parser.parse_args(), 1
    with open_device(options.device) as device:
        profile = replace(profile_of(device), device_class="gpu")
        profile = replace(profile, layouts=layouts_of(device, profile))
        print(f"{device.info.name}, {device.info.driver}")
        runner = Runner(device, profile)
        for text in options.cases:
            case = Case(text)
            print(text, flush=True)
            rule, shape = case.rule, case.shape
            operands = [Operand(x.shape, "f32", row_major(x.shape)) for x in case.arrays]
            found = [split.usable(rule, shape, operands, profile, backward) for backward in (False, True)]
            if all(found):
                print(case.line("halves", runner.results(
                    case, lambda a, r=rule, s=shape, f=found: split.split_forward(r, s, a, f[0], profile),
                    lambda a, r=rule, s=shape, f=found: split.split_backward(r, s, a, f[1], profile))), flush=True)
            if blocks.fits(shape, profile, backward=True):
                print(case.line("blocks", runner.results(
                    case, lambda a, r=rule, s=shape: blocks.blocks_forward(r, s, a, profile),
                    lambda a, r=rule, s=shape: blocks.blocks_backward(r, s, a, profile))), flush=True)
            print(case.line("NumPy fp32", case.plain), flush=True)


if __name__ == "__main__":
    exit_with(main)
