"""What loading a package costs: seconds, and the most memory that the host holds beside what it loads into.

    python -m validation.load_memory FOLDER
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from pathlib import Path

import numpy as np

from hierarchos.models.load import load_model
from validation.command import exit_with


def resident(kind: str) -> int:
    """Bytes of this process in memory (Linux). kind: RssAnon, its own; RssFile, pages of mapped files; VmHWM, the most of both."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * 1024
    return 0


def measure(folder: str) -> dict[str, float]:
    """Reads every parameter as training does, one after the other, into nothing."""
    start = time.perf_counter()
    loaded = load_model(folder)
    opened = time.perf_counter() - start
    before = resident("VmHWM")
    tracemalloc.start()
    start, total, largest = time.perf_counter(), 0, 0
    for _, value in loaded.values().items():
        checked = float(np.add.reduce(value, axis=None, dtype=np.float32))          # touches every page
        assert np.isfinite(checked)
        total, largest = total + value.nbytes, max(largest, value.nbytes)
    seconds = time.perf_counter() - start
    _, peak = tracemalloc.get_traced_memory()
    sizes = {"parameters as float32": total, "largest tensor": largest, "most that Python and NumPy held": peak,
             "growth of the largest resident size": resident("VmHWM") - before}
    return {"open, seconds": opened, "read, seconds": seconds} | {f"{name}, MiB": size / (1 << 20) for name, size in sizes.items()}


def main() -> None:
    """Prints the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder")
    for name, value in measure(arguments.parse_args().folder).items():
        print(f"{name:<45}{value:10.2f}")


if __name__ == "__main__":
    exit_with(main)
