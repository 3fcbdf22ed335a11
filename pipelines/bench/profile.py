"""Device time by kernel of one workload: `hierarchos bench NAME --profile`."""
from __future__ import annotations

from collections import defaultdict

from pipelines.bench.timing import build, feeds_of
from pipelines.bench.workloads import Workload


def kernel_table(workload: Workload, device, seed: int = 0, runs: int = 5, compute: str = "fp32") -> list[tuple[str, int, float]]:
    """(label, launches, milliseconds) of each kernel in one replay, the least of `runs`, longest first."""
    program, _ = build(workload, device, seed, profile=True, compute=compute)
    feeds, best = feeds_of(workload, seed), {}
    for _ in range(runs):
        program.run(feeds)
        found: dict[str, list[float]] = defaultdict(list)
        for label, seconds in program.timings():
            found[label].append(seconds)
        for label, times in found.items():
            best[label] = min(best.get(label, (0, float("inf"))), (len(times), 1e3 * sum(times)), key=lambda pair: pair[1])
    return sorted(((label, count, time) for label, (count, time) in best.items()), key=lambda row: -row[2])


def show(rows: list[tuple[str, int, float]]) -> str:
    """The table as text, with the total."""
    lines = [f"  {label:<44} {count:>4} {time:>9.3f} ms" for label, count, time in rows]
    return "\n".join([*lines, f"  {'all, one after another':<44} {sum(r[1] for r in rows):>4} {sum(r[2] for r in rows):>9.3f} ms"])
