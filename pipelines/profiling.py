"""GPU time by kernel, for `run.profile=true`."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.progress import Progress

if TYPE_CHECKING:
    from hierarchos.graph.program import Program

ROWS = 20          # kernels in the table


def kernel_table(progress: Progress, programs: Mapping[tuple, Program]) -> dict[str, dict]:
    """For each program: the kernels that took most time in its last replay. Returns {program: {kernel: {"calls": n, "ms": time}}}."""
    told = {}
    for key, program in programs.items():
        seconds, counts = defaultdict(float), defaultdict(int)
        for label, took in program.timings():
            seconds[label] += took
            counts[label] += 1
        total = sum(seconds.values()) or 1.0
        largest = sorted(seconds, key=seconds.get, reverse=True)
        rows = [[label, str(counts[label]), f"{seconds[label] * 1e3:.3f}", f"{seconds[label] / total:.1%}"] for label in largest[:ROWS]]
        if len(largest) > ROWS:
            rest = sum(seconds[label] for label in largest[ROWS:])
            rows.append([f"{len(largest) - ROWS} more", "", f"{rest * 1e3:.3f}", f"{rest / total:.1%}"])
        name = " ".join(str(part) for part in key)
        told[name] = {label: {"calls": counts[label], "ms": seconds[label] * 1e3} for label in largest}
        progress.table(f"GPU time of {name}: {total * 1e3:.3f} ms", ["kernel", "calls", "ms", "share"], rows)
    return told
