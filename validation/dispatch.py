"""What a dispatch, a workgroup and a memory access cost on a device: the readings of docs/performance.md, section Dispatch.

    python -m validation.dispatch [DEVICE]

Needs the GLSL compiler of the `test` extra (the probe kernels are compiled here; they are no part of the product).
"""
from __future__ import annotations

import argparse
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from hierarchos.vulkan import Command, Device, Dispatch, Shader, Span, open_device
from shaders.build import compile_shader
from validation.command import exit_with

HEAD = """#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x_id = 0) in;
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pairs { uint64_t at[]; };
layout(push_constant, scalar) uniform Push { Floats x; Floats y; uint n; float a; };
vec2 pair(Pairs p, uint i) { return uintBitsToFloat(unpackUint2x32(p.at[i])); }
void main() { %s }
"""
PROBES = {                                          # name: (body, elements a lane)
    "nothing": ("if (n == 0) y.at[0] = a;", 1),
    "y += a x, one element a lane": ("uint i = gl_GlobalInvocationID.x; if (i < n) y.at[i] += a * x.at[i];", 1),
    "y += a x, 64 elements a lane": ("for (uint k = 0, i = gl_WorkGroupID.x * 64 * gl_WorkGroupSize.x + gl_LocalInvocationID.x; k < 64;"
                                     " k++, i += gl_WorkGroupSize.x) y.at[i] += a * x.at[i];", 64),
    "the same by 64-bit loads": ("Pairs p = Pairs(uint64_t(x)), q = Pairs(uint64_t(y));"
                                 " for (uint k = 0, i = gl_WorkGroupID.x * 32 * gl_WorkGroupSize.x + gl_LocalInvocationID.x; k < 32;"
                                 " k++, i += gl_WorkGroupSize.x)"
                                 " q.at[i] = packUint2x32(floatBitsToUint(a * pair(p, i) + pair(q, i)));", 64),
    "64 loads a lane": ("float s = 0; for (uint k = 0, i = gl_WorkGroupID.x * 64 * gl_WorkGroupSize.x + gl_LocalInvocationID.x; k < 64;"
                        " k++, i += gl_WorkGroupSize.x) s += x.at[i]; y.at[gl_GlobalInvocationID.x] = s;", 64),
    "64 loads a lane, all lanes alike": ("float s = 0; for (uint k = 0; k < 64; k++) s += x.at[k]; y.at[gl_GlobalInvocationID.x] = s;", 64),
}
ELEMENTS = 65536
CHAIN = 200


def compile_probe(body: str) -> Shader:
    """A probe kernel around `body`."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "probe.comp"), Path(folder, "probe.spv")
        source.write_text(HEAD % body)
        complaint = compile_shader(source, target)
        assert not complaint, complaint
        return Shader("probe", target.read_bytes())


def probe(shader: Shader, x: int, y: int, n: int, groups: int, local: int) -> Dispatch:
    return Dispatch(shader, (local,), struct.pack("<QQIf", x, y, n, 2.0), (groups, 1, 1), (Span(x, 4 * n),), (Span(y, 4 * n),), "probe")


def measure(device: Device, commands: Sequence[Command], repeats: int = 15) -> tuple[float, float]:
    """Median seconds of host work to submit, and of the whole replay."""
    recording = device.record(commands)
    recording.run()
    submits, replays = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        value = recording.submit()
        submits.append(time.perf_counter() - start)
        device.wait(value)
        replays.append(time.perf_counter() - start)
    recording.close()
    return median(submits), median(replays)


def report_chains(device: Device, say: Callable[[str], None]) -> None:
    """Small dispatches that wait for each other, and ones that do not."""
    memory = device.allocate((CHAIN + 2) * 4096, "probe")
    shader, x = compile_probe(PROBES["y += a x, one element a lane"][0]), memory.address
    say("| commands | submit, host µs | replay µs | a dispatch µs |\n| --- | --- | --- | --- |")
    chain = [probe(shader, x + 4096 * (i % 2), x + 4096 * (1 - i % 2), 8, 1, 8) for i in range(CHAIN)]
    apart = [probe(shader, x, x + 4096 * (i + 1), 8, 1, 8) for i in range(CHAIN)]
    rows = {"nothing": [], "one dispatch": chain[:1], f"{CHAIN}, each after a barrier": chain, f"{CHAIN}, no barrier": apart}
    for name, commands in rows.items():
        submit, replay = measure(device, commands)
        say(f"| {name} | {submit * 1e6:.1f} | {replay * 1e6:.0f} | {replay * 1e6 / max(1, len(commands)):.2f} |")
    memory.free()


def report_kernels(device: Device, say: Callable[[str], None]) -> None:
    """Cost of an element, by what the kernel does and how many lanes a workgroup has."""
    memory = device.allocate(8 * ELEMENTS, "probe")
    say("\n| kernel | 8 lanes: ns an element | 64 | 256 |\n| --- | --- | --- | --- |")
    for name, (body, each) in PROBES.items():
        shader, cells = compile_probe(body), []
        for local in (8, 64, 256):
            one = probe(shader, memory.address, memory.address + 4 * ELEMENTS, ELEMENTS, ELEMENTS // each // local, local)
            cells.append(f"{measure(device, [one] * 8, 7)[1] / 8 / ELEMENTS * 1e9:.2f}")
        say(f"| {name} | {' | '.join(cells)} |")
    memory.free()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("device", nargs="?", default="auto")
    with open_device(arguments.parse_args().device) as device:
        print(f"{device.info.name}, {device.info.driver}\n")
        report_chains(device, print)
        report_kernels(device, print)


if __name__ == "__main__":
    exit_with(main)
