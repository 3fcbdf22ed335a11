"""How long a training step of SmolLM2-135M's shape takes to compile: CPU time, so that other work on the machine does not count.

    python -m validation.compile_time [--layers 30] [--tokens 64] [--device D]

Pipelines are what the driver makes of the kernels, once for each kernel whatever the number of layers; they are cached on disk.
"""

from __future__ import annotations

import argparse
import time

from hierarchos.graph.plan import plan_program
from hierarchos.graph.profile import profile_of
from hierarchos.graph.program import Program
from hierarchos.graph.store import StateStore
from hierarchos.models.registry import resolve
from hierarchos.training.graphs import step_graph
from hierarchos.training.groups import update_of
from hierarchos.training.state import allocate_state
from hierarchos.vulkan import open_device
from hierarchos.vulkan.commands import Dispatch
from pipelines.config.train import TrainConfig
from validation.command import exit_with

SMOLLM2 = {"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9,
           "num_key_value_heads": 3, "max_position_embeddings": 2048, "rope_theta": 100000.0, "tie_word_embeddings": True}


class Laps:
    """Prints the CPU seconds since the last call."""

    def __init__(self):
        self.start = self.last = time.process_time()

    def __call__(self, what: str) -> None:
        now = time.process_time()
        print(f"{what:58}{now - self.last:7.2f} s")
        self.last = time.process_time()


def main() -> None:
    """A line for each part."""
    parser = argparse.ArgumentParser(prog="python -m validation.compile_time", description="Parts of compiling a training step.")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device, settings = open_device(options.device), TrainConfig()
    store, lap = StateStore(device), Laps()
    model = resolve({**SMOLLM2, "num_hidden_layers": options.layers})
    specs = model.parameters
    lap(f"parameters declared ({len(specs)})")
    allocate_state(store, specs, settings.optimizer)
    lap("weights, gradients, moments allocated (and zeroed)")
    graph = step_graph(model, 1, options.tokens, dropout=False, recompute=False, update=update_of(store.layout, specs, settings))
    lap(f"traced, forward, backward, AdamW ({len(graph.nodes)} nodes)")
    plan = plan_program(graph, profile_of(device), store.layout, device.info.max_allocation or None)
    lap(f"planned ({len(plan.graph.nodes)} nodes)")
    program = Program(plan, device, store, False, "step")
    commands = program.commands()
    kernels = {(command.shader.name, command.constants) for command in commands if isinstance(command, Dispatch)}
    lap(f"allocated, pipelines made ({len(kernels)}), recorded, commands twice")
    device.record(commands, label="again").close()
    lap(f"recorded again ({len(commands)} commands)")
    program.close()
    device.close()


if __name__ == "__main__":
    exit_with(main)
