"""`hierarchos bench coherent_v9`: a training step of coherent-v9 at context 448, vocabulary 50,257, 2 x 64 tokens.

    python -m pipelines.bench.coherent --context 448 --vocabulary 50257 --rows 2 --length 64 --profile
"""
from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hierarchos.models.coherent_v9.feeds import Rows

NAME = "coherent_v9"


@dataclass(frozen=True)
class Sizes:
    """Of the model and of its batch."""

    context: int = 448
    vocabulary: int = 50257
    rows: int = 2
    length: int = 64
    steps: int = 5
    profile: bool = False


def bench(sizes: Sizes, select: str = "auto") -> int:
    """Prints the seconds of the way to a step, then of steps: losses and gradients of all tensors and the AdamW update."""
    import numpy as np

    from hierarchos.coherent.replay import tape_bytes
    from hierarchos.models.coherent_v9.config import resolve
    from hierarchos.models.coherent_v9.feeds import Rows
    from hierarchos.training.coherent.state import CoherentState
    from hierarchos.training.coherent.step import CoherentStep, Objective
    from hierarchos.vulkan import open_device
    from pipelines.config.train import OptimizerConfig

    cfg = resolve({"architecture_revision": "coherent-v9", "vocab_size": sizes.vocabulary, "context_dim": sizes.context})
    rng = np.random.default_rng(0)
    rows = Rows.of(rng.integers(0, sizes.vocabulary, (sizes.rows, sizes.length)))
    with open_device(select) as device:
        print(f"{device.info.name}, {device.info.driver}")
        begun = time.perf_counter()
        state = CoherentState(cfg, device, OptimizerConfig(), 1.0)
        for spec in state.specs:
            state.store.write(spec.name, rng.normal(0, 0.3 / max(1, spec.shape[-1] if spec.shape else 1) ** 0.5, spec.shape).astype("f4"))
        step = CoherentStep(state, sizes.rows, sizes.length, False, Objective())
        one_step(step, rows, 1)
        recording = step.machine.recordings[("step", 0, sizes.length)]
        print(f"{time.perf_counter() - begun:8.2f} s  until the first step was done, loss {step.losses['ce']:.4f}")
        print(f"{len(recording.commands)} commands, {recording.barriers} barriers, "
              f"{tape_bytes(step.machine.chunk.tape, sizes.length) >> 20} MiB of tape")
        for number in range(sizes.steps):
            start = time.perf_counter()
            one_step(step, rows, number + 2)
            seconds = time.perf_counter() - start
            each = 1e3 * seconds / sizes.length
            print(f"{seconds:8.4f} s  a step of {sizes.rows} x {sizes.length} tokens, {each:.3f} ms a token", flush=True)
        if sizes.profile:
            table(device, recording)
    return 0


def one_step(step, rows: Rows, number: int) -> None:
    """Gradients of one batch, and the update."""
    step.losses = {}
    step.state.clear_gradients()
    step.batch(rows, 1.0, rows.mass(), None)
    step.state.update(number, 1e-4)


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in vars(Sizes()).items():
        parser.add_argument(f"--{name}", **({"action": "store_true"} if default is False else {"type": int, "default": default}))
    bench(Sizes(**vars(parser.parse_args())))
