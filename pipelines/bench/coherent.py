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
    from hierarchos.training.coherent.step import CoherentStep

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


def bench(sizes: Sizes, select: str = "auto", as_json: bool = False) -> int:
    """Prints the seconds until the first step is done, then those of steps: losses and gradients of all tensors, and the AdamW update."""
    import json

    from hierarchos.vulkan import open_device

    with open_device(select) as device:
        step, rows, first = prepared(sizes, device)
        seconds = [one_step(step, rows, number + 2) for number in range(sizes.steps)]
        found = figures(sizes, device, step, first, seconds)
        print(json.dumps(found, indent=1) if as_json else "\n".join(lines(sizes, found)), flush=True)
        if sizes.profile and not as_json:
            table(device, step.machine.recordings[("step", 0, sizes.length)])
    return 0


def prepared(sizes: Sizes, device) -> tuple[CoherentStep, Rows, float]:
    """(a step, its batch, the seconds until it was done for the first time); weights are random, of the size of trained ones."""
    import numpy as np

    from hierarchos.models.coherent_v9.config import resolve
    from hierarchos.models.coherent_v9.feeds import Rows
    from hierarchos.training.coherent.state import CoherentState
    from hierarchos.training.coherent.step import CoherentStep, Objective
    from pipelines.config.train import OptimizerConfig

    begun = time.perf_counter()
    cfg = resolve({"architecture_revision": "coherent-v9", "vocab_size": sizes.vocabulary, "context_dim": sizes.context})
    rng, state = np.random.default_rng(0), CoherentState(cfg, device, OptimizerConfig(), 1.0)
    for spec in state.specs:
        scale = np.float32(0.3 / max(1, spec.shape[-1] if spec.shape else 1) ** 0.5)
        state.store.write(spec.name, scale * rng.standard_normal(spec.shape, np.float32))
    rows = Rows.of(rng.integers(0, sizes.vocabulary, (sizes.rows, sizes.length)))
    step = CoherentStep(state, sizes.rows, sizes.length, False, Objective())
    one_step(step, rows, 1)
    return step, rows, time.perf_counter() - begun


def one_step(step: CoherentStep, rows: Rows, number: int) -> tuple[float, float]:
    """Seconds of the gradients of one batch, and of the update."""
    step.losses, begun = {}, time.perf_counter()
    step.state.clear_gradients()
    step.batch(rows, 1.0, rows.mass(), None)
    middle = time.perf_counter()
    step.state.update(number, 1e-4)
    return middle - begun, time.perf_counter() - middle


def figures(sizes: Sizes, device, step: CoherentStep, first: float, seconds: list[tuple[float, float]]) -> dict:
    """What is printed; medians over the steps."""
    from statistics import median

    from hierarchos.coherent.replay import tape_bytes

    recording = step.machine.recordings[("step", 0, sizes.length)]
    whole = median(map(sum, seconds))
    return {"device": device.info.name, "driver": device.info.driver, "context_dim": sizes.context, "vocab_size": sizes.vocabulary,
            "rows": sizes.rows, "length": sizes.length, "until_the_first_step_was_done_s": first, "loss": step.losses["ce"],
            "commands": len(recording.commands), "barriers": recording.barriers,
            "tape_bytes": tape_bytes(step.machine.chunk.tape, sizes.length), "steps_s": [list(pair) for pair in seconds],
            "losses_and_gradients_s": median(pair[0] for pair in seconds), "update_s": median(pair[1] for pair in seconds),
            "step_s": whole, "step_ms_a_token": 1e3 * whole / sizes.length}


def lines(sizes: Sizes, found: dict) -> list[str]:
    """The same for people."""
    part, whole = found["losses_and_gradients_s"], found["step_s"]
    each = lambda value: f"{1e3 * value / sizes.length:.3f} ms a token"                        # noqa: E731
    return [f"{found['device']}, {found['driver']}",
            f"context {sizes.context}, vocabulary {sizes.vocabulary:,}, {sizes.rows} x {sizes.length} tokens, medians of {sizes.steps}",
            f"{found['commands']} commands, {found['barriers']} barriers, {found['tape_bytes'] >> 20} MiB of tape, "
            f"loss {found['loss']:.4f}",
            f"{found['until_the_first_step_was_done_s']:8.2f} s  until the first step was done",
            f"{part:8.4f} s  losses and gradients, {each(part)} (of {sizes.rows} rows at once)",
            f"{found['update_s']:8.4f} s  AdamW update of all tensors",
            f"{whole:8.4f} s  a step with its update, {each(whole)}"]


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
