"""Trains a small Llama in half precision here and under PyTorch's autocast, from the same weights on the same batches, and compares.

    python -m validation.half_learning [bf16 fp16] [--steps 200] [--device auto]

Three trajectories of losses for each format: ours, PyTorch's autocast, and PyTorch's float32, which stands for the truth. Rounding to
halves moves a trajectory by an amount that depends on where it is rounded, so ours cannot be PyTorch's bit for bit; what can be asked is
that ours is no further from the float32 trajectory than PyTorch's is, up to chance. The gate: rms(ours - float32) <= 2 rms(PyTorch -
float32) over the steps, and the mean loss of the last 20 steps within 2 % of float32's. fp16 with a loss scale on both sides
(torch.amp.GradScaler).
Exit status 1 when the gate fails. Development only.
"""
from __future__ import annotations

import argparse
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers

from hierarchos.models.registry import resolve
from hierarchos.training.loop import Trainer
from hierarchos.training.metrics import read_metrics
from hierarchos.training.precision import Precision
from hierarchos.training.schedule import learning_rate
from hierarchos.vulkan import open_device
from tests.tiny import Optimizer, Schedule, Settings
from validation.command import exit_with

CONFIG = {"model_type": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": False}
ROWS, LENGTH, RATE, WARMUP, LAST, FACTOR, SHARE = 4, 48, 3e-3, 10, 20, 2.0, 0.02
KINDS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class Sequences:
    """Noisy arithmetic sequences: batch n is drawn from n, and something can be learnt from them."""

    def __len__(self) -> int:
        return 1000

    def batch(self, number: int) -> dict:
        rng = np.random.default_rng([11, number])
        start, step = rng.integers(0, 256, (ROWS, 1)), rng.integers(1, 5, (ROWS, 1))
        ids = (start + step * np.arange(LENGTH + 1) + rng.integers(0, 2, (ROWS, LENGTH + 1))) % 256
        shape = (ROWS, LENGTH)
        return {"ids": ids[:, :-1].astype(np.int32), "targets": ids[:, 1:].astype(np.int32),
                "positions": np.broadcast_to(np.arange(LENGTH, dtype=np.int32), shape).copy(), "segments": np.ones(shape, np.int32),
                "token_weights": np.ones(shape, np.float32)}


def ours(compute: str, steps: int, device) -> list[float]:
    """Losses of a run on a Vulkan device."""
    settings = replace(Settings(), steps=steps, learning_rate=RATE, checkpoint_every=0, eval_every=0, optimizer=Optimizer(weight_decay=0.1),
                       schedule=Schedule("constant", WARMUP, 0.0))
    model = resolve(CONFIG)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, settings, Sequences(), [], device, Path(folder), precision=Precision(compute))
        trainer.start(model.initial_values(0))
        trainer.run()
        return [row["loss"] for row in read_metrics(Path(folder) / "metrics.jsonl")]


def theirs(compute: str, steps: int) -> list[float]:
    """Losses of the same run in PyTorch, under autocast for a half format."""
    torch.set_num_threads(1)                        # the model is tiny, and threads that wait spin
    values = resolve(CONFIG).initial_values(0)
    config = transformers.LlamaConfig(**{k: v for k, v in CONFIG.items() if k != "model_type"})
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="sdpa", dtype=torch.float32).train()
    model.load_state_dict({name: torch.tensor(value) for name, value in values.items()}, strict=True)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
    optimizer, data, losses = torch.optim.AdamW(groups, lr=RATE), Sequences(), []
    scaler = torch.amp.GradScaler("cpu", enabled=compute == "fp16")
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, RATE, "constant", WARMUP)
        batch = data.batch(step)
        with torch.autocast("cpu", KINDS[compute]) if compute != "fp32" else nullcontext():
            logits = model(input_ids=torch.tensor(batch["ids"]).long()).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), torch.tensor(batch["targets"]).long().flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
    return losses


def rms(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.mean((a - b) ** 2)))


def judge(compute: str, here: np.ndarray, torch_half: np.ndarray, truth: np.ndarray) -> bool:
    """Prints the comparison of one format; whether it passes the gate."""
    own, other = rms(here, truth), rms(torch_half, truth)
    end = abs(here[-LAST:].mean() / truth[-LAST:].mean() - 1)
    passed = own <= FACTOR * other and end <= SHARE
    ends = [losses[-LAST:].mean() for losses in (here, torch_half, truth)]
    print(f"{compute}: {len(here)} steps, loss {here[0]:.4f} -> {ends[0]:.4f} (PyTorch autocast {ends[1]:.4f}, float32 {ends[2]:.4f})\n"
          f"  rms from float32: ours {own:.2e}, PyTorch autocast {other:.2e}; ours from PyTorch autocast: rms {rms(here, torch_half):.2e}, "
          f"at most {np.abs(here - torch_half).max():.2e}\n"
          f"  gate: {own / other:.2f} <= {FACTOR}, end {end:.2%} <= {SHARE:.0%}: {'passed' if passed else 'FAILED'}", flush=True)
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("formats", nargs="*", default=["bf16", "fp16"])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    truth = np.array(theirs("fp32", given.steps))
    passed = True
    with open_device(given.device) as device:
        print(f"{device.info.name} ({device.info.driver}), PyTorch {torch.__version__}", flush=True)
        wide = np.array(ours("fp32", given.steps, device))
        print(f"fp32: rms from PyTorch's float32 {rms(wide, truth):.2e}, at most {np.abs(wide - truth).max():.2e}", flush=True)
        for compute in given.formats:
            passed &= judge(compute, np.array(ours(compute, given.steps, device)), np.array(theirs(compute, given.steps)), truth)
    return 0 if passed else 1


if __name__ == "__main__":
    exit_with(main)
