"""Where one training step of the default job spends its time on a software driver, by kernel, and what its kernels cost to compile.

    python -m validation.bench_step                     llama_tiny, 8 x 128 tokens
    python -m validation.bench_step --most 40 --json
    MESA_SHADER_CACHE_DIR=$(mktemp -d) python -m validation.bench_step --first
                                                        the first run: CPU time of the first dispatch of each pipeline

Times are CPU time of the process divided by its cores, so that other work on the machine does not count; each kernel is
replayed alone, so its operands are in the caches more often than in a whole step.
"""
from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf

from hierarchos.graph.program import Program
from hierarchos.models.registry import resolve
from hierarchos.training.state import TrainingState
from hierarchos.training.step import TrainStep
from hierarchos.vulkan.commands import Command, Dispatch
from hierarchos.vulkan.device import open_device
from pipelines.config.root import Config
from validation.bench_gemm import best_time, cores
from validation.command import exit_with

MODEL = Path(__file__).parents[1] / "configs" / "model" / "llama_tiny.yaml"


def default_step(device) -> tuple[Program, dict]:
    """The step program of `hierarchos train`, and feeds for it: random tokens."""
    settings = Config()
    model = resolve(OmegaConf.to_container(OmegaConf.load(MODEL))["config"] | {"vocab_size": settings.tokenizer.vocab_size})
    state = TrainingState(model, device, settings.train.optimizer)
    state.load(model.initial_values(0))
    shape = settings.train.batch_size, settings.train.sequence_length
    step = TrainStep(state, settings.train)
    ids = np.random.default_rng(0).integers(0, settings.tokenizer.vocab_size, (shape[0], shape[1] + 1))
    batch = {"ids": ids[:, :-1], "targets": ids[:, 1:], "token_weights": np.ones(shape), "segments": np.ones(shape),
             "positions": np.tile(np.arange(shape[1]), (shape[0], 1))}
    program = step.step_program(*shape)
    return program, step.feeds(program, batch, float(ids[:, 1:].size), 0, 0) | {"scalars": step.scalars(0, 1e-3)}


def by_label(commands: list[Command]) -> dict[str, list[Command]]:
    groups: dict[str, list[Command]] = defaultdict(list)
    for command in commands:
        groups[command.label].append(command)
    return groups


def plausible(program: Program) -> None:
    """Fills the activations with normal numbers: a kernel that is replayed alone finds there what others left, and integers
    read as floats are denormals, which cost ten times as much."""
    for block in program.scratch.blocks:
        noise = np.random.default_rng(0).standard_normal(block.nbytes // 4, np.float32)
        program.device.upload(block.address, 0.02 * noise)


def kernel_rows(program: Program) -> list[dict]:
    """Milliseconds of all commands of each label, longest first."""
    rows, device = [], program.device
    for label, group in by_label(program.commands()).items():
        plausible(program)
        recording = device.record(group, label=label)
        seconds = best_time(recording.run, cpu_time=True, seconds=0.3, most=20)
        operations = sum(c.operations for c in group if isinstance(c, Dispatch))
        rows.append({"kernel": label, "calls": len(group), "ms": 1e3 * seconds, "gflops": 1e-9 * operations / seconds})
        recording.close()
    return sorted(rows, key=lambda row: -row["ms"])


def first_rows(device, commands: list[Command]) -> list[dict]:
    """CPU milliseconds (of one core) of the first dispatch of each pipeline beyond those of a later one, longest first."""
    seen: dict[tuple, dict] = {}
    for command in commands:
        if not isinstance(command, Dispatch) or (command.shader.digest, command.constants) in seen:
            continue
        times = []
        for _ in range(2):
            start = time.process_time()
            device.execute([command])
            times.append(1e3 * (time.process_time() - start))
        seen[command.shader.digest, command.constants] = {"kernel": command.label, "shader": command.shader.name,
                                                          "constants": list(command.constants), "ms": times[0] - times[1]}
    return sorted(seen.values(), key=lambda row: -row["ms"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--first", action="store_true", help="cost of first dispatches instead")
    parser.add_argument("--most", type=int, default=25, help="rows to print")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:              # an empty pipeline cache of our own when compile time is asked for
        device = open_device(options.device, pipeline_folder=Path(folder) if options.first else None)
        program, feeds = default_step(device)
        if options.first:
            rows = first_rows(device, program.commands())
            head = f"{len(rows)} pipelines, {sum(row['ms'] for row in rows):.0f} ms of CPU for their first dispatches"
        else:
            step = best_time(lambda: program.run(feeds), cpu_time=True, seconds=3.0, most=10)
            rows = kernel_rows(program)
            head = f"step {1e3 * step:.1f} ms, {feeds['ids'].size / step:.0f} tokens/s, {sum(row['calls'] for row in rows)} commands"
        device.close()
    print(json.dumps({"summary": head, "rows": rows}, indent=1) if options.json else f"{head}; {cores()} cores")
    if not options.json:
        for row in rows[:options.most]:
            print("  ".join(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))


if __name__ == "__main__":
    exit_with(main)
