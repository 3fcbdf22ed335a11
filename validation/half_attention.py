"""Checks attention over halves on matrix units against its NumPy twins: forward and gradients, in shapes that reach every edge.

    python -m validation.half_attention [--device auto]

Both kernels: scores in registers, where the device's matrices are laid out for that, and through shared memory. One line a case: errors of
out and of the log-sum-exp, of dq, dk and dv relative to their largest, and the kernels that ran. On a software driver with matrix units
(Mesa 26) the cases are small, because it compiles slowly. Exit status 1 where an error is beyond what rounding operands, probabilities and
results gives. Development only.
"""
from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

import numpy as np

from hierarchos.graph.binding import bind
from hierarchos.graph.matrix_layouts import layouts_of
from hierarchos.graph.ops.half import HalfAttention, HalfAttentionBackward
from hierarchos.graph.profile import profile_of
from hierarchos.kernels import attention_half, attention_units
from hierarchos.kernels.attention_reference import attention_backward_reference, attention_reference
from hierarchos.kernels.attention_rule import AttentionRule
from hierarchos.kernels.half import from_bits, to_bits
from hierarchos.kernels.launch import Operand, row_major
from hierarchos.vulkan import open_device
from validation.command import exit_with

ALLOWED = {"f16": 2e-3, "bf16": 1.6e-2}             # four units in the last place


@dataclass(frozen=True)
class Case:
    """Sizes and options of one attention."""

    batch: int
    queries: int
    keys: int
    heads: int
    key_heads: int
    width: int
    segments: bool = False
    window: int | None = None
    causal: bool = True


LARGE = (Case(1, 19, 19, 2, 1, 64, True), Case(2, 200, 200, 4, 2, 64, True), Case(1, 130, 257, 2, 1, 64),
         Case(1, 300, 300, 2, 2, 128, True, 50), Case(1, 70, 70, 2, 2, 32, causal=False))
SMALL = (Case(1, 19, 19, 2, 1, 16, True), Case(2, 40, 40, 2, 2, 16), Case(1, 21, 37, 2, 1, 16, True, 9))


class Memory:
    """Arrays on a device, and what the kernels left there."""

    def __init__(self, device):
        self.device, self.kept = device, []

    def place(self, array: np.ndarray, dtype: str) -> tuple[int, Operand]:
        self.kept.append(self.device.allocate(array.nbytes, "check"))
        self.device.upload(self.kept[-1].address, array)
        return self.kept[-1].address, Operand(array.shape, dtype, row_major(array.shape))

    def read(self, bound: tuple[int, Operand]) -> np.ndarray:
        raw = bytes(self.device.download(bound[0], bound[1].nbytes))
        half = bound[1].dtype != "f32"
        array = np.frombuffer(raw, np.uint16 if half else np.float32).reshape(bound[1].shape)
        return from_bits(array, bound[1].dtype) if half else array

    def run(self, op, inputs: list, outputs: list, profile) -> list[str]:
        """Runs an op; the names of its kernels."""
        lowering = op.lower([o for _, o in inputs], [o for _, o in outputs], profile)
        workspace, _ = self.place(np.zeros(max(64, lowering.workspace // 4 + 1), np.float32), "f32")
        self.device.record(bind(lowering, inputs, outputs, workspace)).run()
        return [getattr(launch.shader, "name", launch.shader) for launch in lowering.launches]


def check(device, profile, case: Case, dtype: str) -> bool:
    """Prints the errors of one case; whether they are allowed."""
    random, memory = np.random.default_rng(0), Memory(device)

    def halves(count: int, heads: int) -> np.ndarray:
        return to_bits(random.standard_normal((case.batch, count, heads, case.width), np.float32), dtype)
    q, k, v = halves(case.queries, case.heads), halves(case.keys, case.key_heads), halves(case.keys, case.key_heads)
    dout, rule = halves(case.queries, case.heads), AttentionRule(case.width**-0.5, case.causal, case.window, segments=case.segments)
    optional = {name: np.sort(random.integers(0, 3, (case.batch, count)), 1).astype(np.int32)
                for name, count in (("segments_q", case.queries), ("segments_k", case.keys))} if case.segments else {}
    inputs = [memory.place(x, dtype) for x in (q, k, v)]
    extra = [memory.place(x, "i32") for x in optional.values()]
    out = memory.place(np.zeros(q.shape, np.uint16), dtype)
    lse = memory.place(np.zeros((case.batch, case.heads, case.queries), np.float32), "f32")
    names = memory.run(HalfAttention(rule, format=dtype), [*inputs, *extra], [out, lse], profile)
    gradients = [memory.place(np.zeros(x.shape, np.uint16), dtype) for x in (q, k, v)]
    backward = [*inputs, out, lse, memory.place(dout, dtype), *extra]
    names += memory.run(HalfAttentionBackward(rule, format=dtype), backward, gradients, profile)

    wide = [from_bits(x, dtype).astype(np.float64) for x in (q, k, v, dout)]
    truth = attention_reference(rule, *wide[:3], optional)
    rounded = from_bits(to_bits(truth[0].astype(np.float32), dtype), dtype).astype(np.float64)
    exact = attention_backward_reference(rule, *wide[:3], rounded, truth[1], wide[3], optional)
    seen = np.abs(truth[1]) < 1e30
    errors = [np.abs(memory.read(out) - truth[0]).max() / np.abs(truth[0]).max(), np.abs(memory.read(lse) - truth[1])[seen].max(initial=0)]
    errors += [np.abs(memory.read(bound) - x).max() / np.abs(x).max() for bound, x in zip(gradients, exact, strict=True)]
    passed = errors[1] < 1e-4 and max(errors) < ALLOWED[dtype]
    print(f"{case} {dtype}: out {errors[0]:.1e} lse {errors[1]:.1e} dq dk dv {' '.join(f'{e:.1e}' for e in errors[2:])} "
          f"{'ok' if passed else 'FAILED'} ({', '.join(names)})", flush=True)
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    device = open_device(parser.parse_args().device)
    profile = replace(profile_of(device), device_class="gpu")
    profile = replace(profile, layouts=layouts_of(device, profile))
    print(f"{device.info.name} ({device.info.driver}), matrices {profile.matrices}")
    if device.info.software:
        attention_half.SUBGROUPS = 2
        attention_half.NARROW = attention_half.BACKWARD = attention_half.Block(1, 16)
        attention_units.UNITS.update(dict.fromkeys(attention_units.UNITS, (attention_units.Unit(2, 16), attention_units.Unit(2, 16))))
    formats, cases = dict.fromkeys(entry[0] for entry in profile.matrices), SMALL if device.info.software else LARGE
    profiles = (profile, replace(profile, layouts=()))
    results = [check(device, kernels, case, dtype) for dtype in formats for kernels in profiles for case in cases]
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    exit_with(main)
