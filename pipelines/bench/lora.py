"""`hierarchos bench lora`: a LoRA training step here, and the same step in PyTorch (PEFT) on the processor, in FP32 and in BF16.

Rank 8 on all seven projections, one row of 512 tokens, the same weights, adapter and tokens on every side; one side after the other.
"""
from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.bench import lora_peers
from pipelines.bench.lora_table import tell

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.models.load import Loaded
    from hierarchos.peft.adapted import Adapted

RANK, ALPHA, RATE, STEPS = 8, 16, 2e-4, 4              # the first step, which compiles or warms up, is not counted
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
SMOLLM2 = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
           "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192,
           "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "tie_word_embeddings": True, "initializer_range": 0.041666666666666664}
TINYLLAMA = SMOLLM2 | {"vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
                       "num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 2048, "rope_theta": 10000.0,
                       "tie_word_embeddings": False, "initializer_range": 0.02}


@dataclass(frozen=True)
class Size:
    """What is measured: an architecture with random weights."""

    what: str
    config: dict
    length: int = 512
    steps: int = STEPS


SIZES = {"lora": Size("shape of SmolLM2-135M, 4 of its 30 layers", SMOLLM2 | {"num_hidden_layers": 4}),
         "lora-smollm2-135m": Size("shape of SmolLM2-135M", SMOLLM2),
         "lora-tinyllama-1.1b": Size("shape of TinyLlama-1.1B", TINYLLAMA)}


def bench(size: Size, select: str = "auto", as_json: bool = False, compute: str = "fp32", model: str | None = None) -> int:
    """Prints the comparison; the status is 3 where a loss is not PEFT's. model: a package folder instead of random weights."""
    from hierarchos.models.load import load_model, save_model
    from hierarchos.models.registry import resolve
    from hierarchos.peft.adapted import adapted
    from hierarchos.peft.config import LoraConfig
    from hierarchos.vulkan import open_device

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    with tempfile.TemporaryDirectory(prefix="hierarchos-bench-") as name:
        folder = Path(model) if model else Path(name) / "base"
        if not model:
            made = resolve(size.config)
            save_model(folder, made, made.initial_values(0))
        loaded = load_model(folder)
        adapter = adapted(loaded.model, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=PROJECTIONS))
        ids = random_ids(loaded.model.config.vocab_size, size)
        with open_device(select) as device:
            device.autotune = not device.info.software
            found = {"what": f"package {model}" if model else f"{size.what}, random weights", "length": size.length, "steps": size.steps,
                     "device": device.info.name, "driver": device.info.driver, "software": device.info.software,
                     "cores": os.cpu_count(), "load": load, "sides": [ours(device, loaded, adapter, ids, Path(name) / "adapter", compute)]}
        sides, found["missing"] = lora_peers.measure(folder, Path(name) / "adapter", ids, Path(name), RATE)
        found["sides"] += sides
    return tell(found, as_json)


def random_ids(vocabulary: int, size: Size) -> np.ndarray:
    """int32 [steps, length + 1]: a row for each step, and what comes next."""
    import numpy as np

    return np.random.default_rng(0).integers(0, vocabulary, (size.steps, size.length + 1)).astype(np.int32)


def ours(device, loaded: Loaded, model: Adapted, ids: np.ndarray, adapter: Path, compute: str) -> dict:
    """Losses and seconds of the step that `hierarchos finetune` runs; writes the adapter that all sides start from."""
    from hierarchos.peft.files import save_adapter
    from hierarchos.peft.start import Start
    from hierarchos.training.need import Planner
    from hierarchos.training.precision import Precision
    from hierarchos.training.state import TrainingState
    from hierarchos.training.step import TrainStep
    from pipelines.config import Config
    from pipelines.memory import require_fit

    config, precision, batches = Config(), Precision(compute), [batch_of(row) for row in ids]
    need = Planner(model, device, precision).training(config.train, [batches[0]["ids"].shape])
    require_fit(device, config, lambda line: None, "a LoRA training step", need)
    values = Start(model, loaded.values(), 0)
    save_adapter(adapter, model, {spec.name: values[spec.name] for spec in model.trained})
    state = TrainingState(model, device, config.train.optimizer, precision)
    step = TrainStep(state, config.train)
    state.load(values)
    losses, seconds = [], []
    for number, batch in enumerate(batches):
        begun = time.perf_counter()
        losses.append(step.run([batch], number, RATE).loss)
        seconds.append(time.perf_counter() - begun)
    return side("hierarchos", compute, losses, seconds) | {"peak_bytes": device.memory.peak}


def batch_of(row: np.ndarray) -> dict:
    """A batch of one row [length + 1]; every token is trained."""
    import numpy as np

    shape = (1, len(row) - 1)
    return {"ids": row[None, :-1], "targets": row[None, 1:], "positions": np.arange(shape[1], dtype=np.int32)[None],
            "segments": np.ones(shape, np.int32), "token_weights": np.ones(shape, np.float32)}


def side(who: str, compute: str, losses: list[float], seconds: list[float]) -> dict:
    """What is kept of one side: the median of the steps after the first."""
    return {"who": who, "precision": compute, "step_seconds": statistics.median(seconds[1:] or seconds), "first_step_seconds": seconds[0],
            "seconds": seconds, "losses": losses}
