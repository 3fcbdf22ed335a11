"""How the time of a training step grows with batch, sequence and layers: a table and a fitted slope of each.

    python -m validation.scaling                                 a small Llama on the default device
    python -m validation.scaling --device nvidia --width 576 --layers 8 --batch 4 --length 512 --json
    python -m validation.scaling --plan --length 512             launches and bytes only: no device

One of the three grows by doubling while the others stay. slope: of log(ms) over log(size), by least squares over the larger half of
the sizes, where fixed costs hide it least: 1 is linear; attention makes the sequence's rise above 1, nothing else may.
"""
from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, replace

from pipelines.bench.workloads import Sizes, llama
from validation.command import exit_with

AXES = {"batch": "rows", "length": "length", "layers": "layers"}


@dataclass(frozen=True)
class Reading:
    """One step of one size. Memory in bytes; milliseconds 0 without a device."""

    axis: str
    size: int
    milliseconds: float
    launches: int
    peak_bytes: int


def sizes_of(options: argparse.Namespace) -> Sizes:
    return Sizes(options.layers, options.width, 8 * options.width // 3 // 32 * 32, options.width // options.head, options.vocabulary,
                 options.batch, options.length)


def read(base: Sizes, axis: str, size: int, device, seconds: float) -> Reading:
    """Times one step, or only plans it where there is no device."""
    workload = llama(f"{axis} {size}", replace(base, **{AXES[axis]: size}))
    if device is None:
        from validation.floors import floors
        found = floors(workload)
        return Reading(axis, size, 0.0, found.launches, found.peak)
    from pipelines.bench.timing import time_workload
    timing = time_workload(workload, device, seconds)
    return Reading(axis, size, timing.milliseconds, timing.dispatches, timing.peak_bytes)


def slope(points: list[tuple[float, float]]) -> float:
    """Of log(y) over log(x), by least squares."""
    logs = [(math.log(x), math.log(max(y, 1e-9))) for x, y in points]
    mean_x, mean_y = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def slopes(readings: list[Reading]) -> dict[str, float]:
    """Of time, launches and peak over the larger half of one axis' sizes."""
    half = readings[len(readings) // 2 - (len(readings) < 4):]
    found = {name: slope([(r.size, getattr(r, name)) for r in half]) for name in ("milliseconds", "launches", "peak_bytes")}
    return found if half[0].milliseconds else found | {"milliseconds": 0.0}


def table(readings: list[Reading]) -> str:
    lines = ["| axis | size | ms | launches | peak, MiB |", "| --- " * 5 + "|"]
    lines += [f"| {r.axis} | {r.size} | {r.milliseconds:.3f} | {r.launches} | {r.peak_bytes / 2**20:.1f} |" for r in readings]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--plan", action="store_true", help="plan only: launches and memory")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--head", type=int, default=32, help="channels of a head")
    parser.add_argument("--vocabulary", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--doublings", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each size")
    parser.add_argument("--axis", choices=AXES, action="append", help="only this one")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    base, device, found = sizes_of(options), None, {}
    if not options.plan:
        from hierarchos.vulkan import open_device
        device = open_device(options.device)
    try:
        for axis in options.axis or AXES:
            first = getattr(base, AXES[axis])
            found[axis] = [read(base, axis, first << i, device, options.seconds) for i in range(options.doublings + 1)]
    finally:
        if device is not None:
            device.close()
    fitted = {axis: slopes(readings) for axis, readings in found.items()}
    if options.json:
        rows = [vars(reading) for readings in found.values() for reading in readings]
        print(json.dumps({"device": device.info.name if device else "", "sizes": vars(base), "readings": rows, "slopes": fitted}, indent=1))
        return
    print(f"{device.info.name}, {device.info.driver}" if device else "planned for an H200")
    print(table([reading for readings in found.values() for reading in readings]))
    for axis, values in fitted.items():
        print(f"slope over {axis}: " + ", ".join(f"{name} {value:.2f}" for name, value in values.items()))


if __name__ == "__main__":
    exit_with(main)
