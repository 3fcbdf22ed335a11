"""Every preset configs/model/<family>_tiny.yaml: composes, starts near the loss of a model that knows nothing, and learns.

    python -m validation.presets                 all of them, about 2 s each on two idle cores
    python -m validation.presets bert gpt2 --steps 5
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from hierarchos.models.family import Model
from hierarchos.models.registry import FAMILIES
from hierarchos.models.registry import resolve as resolve_model
from hierarchos.training.state import TrainingState
from hierarchos.training.step import TrainStep
from hierarchos.vulkan import open_device
from pipelines.config.root import Config
from pipelines.settings.compose import check_request, compose
from pipelines.settings.folders import Folders
from pipelines.settings.resolve import resolve
from validation.command import exit_with

VOCABULARY, SHAPE = 256, (2, 24)
RATE = 1e-3
WIDE = ("xlm", "flaubert", "open-llama")        # whose reference starts a tied embedding so wide that first guesses are confident


def composed(family: str, *words: str) -> Config:
    """The configuration of `hierarchos train model=<family>_tiny`."""
    return resolve(compose(check_request("train", [f"model={family}_tiny", *words], Folders.find(None))))


def batch(masked: bool) -> dict[str, np.ndarray]:
    """Random ids; targets are the next ones, or (masked) those at the place of every fourth, which is hidden."""
    ids = np.random.default_rng(0).integers(6, VOCABULARY, SHAPE).astype(np.int32)
    targets = np.roll(ids, -1, 1)
    weights = np.ones(SHAPE, np.float32)
    if masked:
        weights[:] = np.arange(SHAPE[1]) % 4 == 0
        targets, ids = np.where(weights > 0, ids, -100).astype(np.int32), np.where(weights > 0, 5, ids).astype(np.int32)
    positions = np.tile(np.arange(SHAPE[1], dtype=np.int32), (SHAPE[0], 1))
    return {"ids": ids, "targets": targets, "token_weights": weights, "segments": np.ones(SHAPE, np.int32), "positions": positions}


def losses(model: Model, config: Config, device, steps: int) -> list[float]:
    """The loss before each step on one batch, from the values of seed 0."""
    state = TrainingState(model, device, config.train.optimizer)
    state.load(model.initial_values(0))
    step = TrainStep(state, config.train)
    arrays = batch(model.task == "masked")
    found = [step.run([arrays], number, RATE).loss for number in range(steps)]
    for program in step.programs.values():
        program.close()
    for arena in list(state.store.layout.arenas):
        state.store.free(arena)
    return found


def tried(family: str, device, steps: int) -> list[float]:
    """The losses of a preset with a small vocabulary."""
    config = composed(family)
    return losses(resolve_model({"pad_token_id": 0, "vocab_size": VOCABULARY, **config.model.config}), config, device, steps)


def sound(family: str, found: list[float]) -> bool:
    """Finite, lower at the end, and at first not far from that of a guess: initial values are neither too large nor all alike."""
    learns = all(map(math.isfinite, found)) and found[-1] < found[0]
    return learns and (family in WIDE or abs(found[0] - math.log(VOCABULARY)) < 1.0)


def main() -> int:
    """A line for each preset; 1 where one is not sound."""
    parser = argparse.ArgumentParser(prog="python -m validation.presets", description="Trains every preset for some steps.")
    parser.add_argument("families", nargs="*")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device, failed = open_device(options.device), []
    for family in options.families or FAMILIES:
        start = time.perf_counter()
        found = tried(family, device, options.steps)
        if not sound(family, found):
            failed.append(family)
        told = "  ".join(f"{loss:.3f}" for loss in found) + ("" if sound(family, found) else "  NOT SOUND")
        print(f"{family:24}{time.perf_counter() - start:6.1f} s   {told}", flush=True)
    device.close()
    print(f"{len(failed)} not sound: {', '.join(failed)}" if failed else "all sound")
    return int(bool(failed))


if __name__ == "__main__":
    exit_with(main)
