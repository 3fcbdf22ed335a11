"""Time of a coherent-v9 training step: losses, gradients of all tokens and, with --profile, device time by kernel.

    python -m validation.coherent_step --context 448 --vocabulary 50257 --rows 2 --length 64
"""
from __future__ import annotations

import argparse
import time

import numpy as np

from hierarchos.models.coherent_v9 import machine as machines
from hierarchos.models.coherent_v9.chunk import Kind
from hierarchos.models.coherent_v9.config import resolve
from hierarchos.models.coherent_v9.feeds import Rows, automata
from hierarchos.models.coherent_v9.parameters import parameters
from hierarchos.models.coherent_v9.replay import tape_bytes
from hierarchos.vulkan import open_device


def main() -> None:
    """Prints the seconds of each part of the way to a step, then of steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("context", 448), ("vocabulary", 50257), ("rows", 2), ("length", 64), ("steps", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--profile", action="store_true")
    wanted = parser.parse_args()
    cfg = resolve({"architecture_revision": "coherent-v9", "vocab_size": wanted.vocabulary, "context_dim": wanted.context})
    rng = np.random.default_rng(0)
    rows = Rows.of(rng.integers(0, wanted.vocabulary, (wanted.rows, wanted.length)))
    with open_device("auto") as device:
        print(device.info.name)
        begun = time.perf_counter()
        memory = machines.Memory(cfg, device, training=True)
        for spec in parameters(cfg):
            memory.store.write(spec.name, rng.normal(0, 0.3 / max(1, spec.shape[-1] if spec.shape else 1) ** 0.5, spec.shape).astype("f4"))
        machine = machines.Machine(memory, Kind(wanted.rows), wanted.length)
        report = lambda what: print(f"{time.perf_counter() - begun:8.2f} s  {what}", flush=True)    # noqa: E731
        report("weights written, programs of a token compiled")
        losses = run(machine, cfg, rows, wanted)
        report(f"first step done, loss {float(losses['ce'][0]):.4f}")
        recording = machine.recordings[("step", 0, wanted.length)]
        print(f"{len(recording.commands)} commands, {recording.barriers} barriers, {tape_bytes(machine.chunk.tape, wanted.length) >> 20} MiB of tape")
        for _ in range(wanted.steps):
            start = time.perf_counter()
            run(machine, cfg, rows, wanted)
            print(f"{time.perf_counter() - start:8.4f} s  a step of {wanted.rows} x {wanted.length} tokens", flush=True)
        if wanted.profile:
            table(device, recording)


def run(machine, cfg, rows: Rows, wanted) -> dict:
    """Losses and gradients of one batch."""
    machine.reset()
    machine.store.zero(machines.GRADIENTS)
    return machine.run("step", rows, 0, wanted.length, 0, automata(cfg, wanted.rows))


def table(device, recording) -> None:
    """Device time by kernel, largest first."""
    timed = device.record(recording.commands, profile=True)
    timed.run()
    timed.run()
    total: dict[str, list] = {}
    for label, seconds in timed.timings():
        entry = total.setdefault(label, [0.0, 0])
        entry[0] += seconds
        entry[1] += 1
    print(f"{sum(s for s, _ in total.values()):8.4f} s  all commands, one by one")
    for label, (seconds, count) in sorted(total.items(), key=lambda item: -item[1][0])[:40]:
        print(f"{seconds * 1e3:9.2f} ms {count:7d} x {seconds / count * 1e6:8.2f} us  {label}")


if __name__ == "__main__":
    main()
