"""Repeats a finished training run in PyTorch, from the same initial weights and batches, and compares the loss of every step.

    python -m validation.learning outputs/train/RUN [--steps 200] [--json] [--gate 1e-3]

Exit status 1 when a loss differs by more than the gate. Development only.
"""
from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from omegaconf import OmegaConf

from hierarchos.data.batches import BatchStream
from hierarchos.data.options import BatchOptions
from hierarchos.data.token_file import TokenFile
from hierarchos.models.registry import read_model
from hierarchos.training.metrics import read_metrics
from hierarchos.training.schedule import learning_rate
from hierarchos.training.settings import decays
from pipelines.stages.tokenize import TRAIN
from validation.command import exit_with


def batches_of(run: Path, config) -> BatchStream:
    """The batches that the run trained on."""
    manifest = json.loads((run / "run.json").read_text())
    file = TokenFile.load(run / manifest["stages"]["tokenize"]["folder"] / TRAIN)
    data, train = config.data, config.train
    return BatchStream(file, BatchOptions(batch_size=train.batch_size, sequence_length=train.sequence_length, layout=data.layout,
                                          pad_to=data.pad_to, pad_multiple=data.pad_multiple, shuffle=train.shuffle, seed=config.run.seed))


def reference_model(run: Path, seed: int) -> torch.nn.Module:
    """Transformers' model with the run's initial weights."""
    values = read_model(run / "model").initial_values(seed)
    config = transformers.AutoConfig.from_pretrained(run / "model")
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    unexpected = model.load_state_dict({name: torch.tensor(value) for name, value in values.items()}, strict=False)[1]
    assert not unexpected, unexpected
    model.tie_weights()
    return model.train()


def loss_of(model: torch.nn.Module, batch: dict, tokens: float) -> torch.Tensor:
    """Weighted mean of the next-token loss, attention inside segments only."""
    segments = torch.tensor(batch["segments"])
    length = segments.shape[1]
    seen = (segments[:, :, None] == segments[:, None, :]) & torch.ones(length, length, dtype=torch.bool).tril()
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)[:, None]
    logits = model(input_ids=torch.tensor(batch["ids"]).long(), position_ids=torch.tensor(batch["positions"]).long(), attention_mask=mask,
                   use_cache=False).logits
    nll = F.cross_entropy(logits.flatten(0, 1), torch.tensor(batch["targets"]).long().flatten(), ignore_index=-100, reduction="none")
    return (nll * torch.tensor(batch["token_weights"]).flatten()).sum() / tokens


def optimizer_of(model: torch.nn.Module, run: Path, train) -> torch.optim.Optimizer:
    """AdamW with the run's groups."""
    decayed_names = {spec.name for spec in read_model(run / "model").parameters if decays(spec, train.optimizer)}
    named = list(model.named_parameters())
    decayed, rest = ([p for name, p in named if (name in decayed_names) is wanted] for wanted in (True, False))
    groups = [{"params": decayed, "weight_decay": train.optimizer.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=(train.optimizer.beta1, train.optimizer.beta2), eps=train.optimizer.eps)


def repeat(run: Path, steps: int) -> list[dict]:
    """One row for each step: the run's loss, PyTorch's, and their difference."""
    config = OmegaConf.load(run / "config.yaml")
    rows = [row for row in read_metrics(run / "metrics.jsonl") if "loss" in row][:steps]
    train, stream, model = config.train, batches_of(run, config), reference_model(run, config.run.seed)
    optimizer, result = optimizer_of(model, run, train), []
    for row in rows:
        number = row["step"] - 1
        parts = [stream.batch(number * train.accumulation + index) for index in range(train.accumulation)]
        tokens = sum(float(part["token_weights"].sum(dtype=np.float64)) for part in parts)
        optimizer.zero_grad()
        losses = [loss_of(model, part, tokens) for part in parts]
        for loss in losses:
            loss.backward()
        if train.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(model.parameters(), train.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(number, row["steps"], train.learning_rate, train.schedule.name, train.schedule.warmup,
                                        train.schedule.floor)
        optimizer.step()
        theirs = sum(float(loss.detach()) for loss in losses)
        result.append({"step": row["step"], "loss": row["loss"], "pytorch_loss": theirs, "difference": abs(row["loss"] - theirs)})
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--gate", type=float, default=1e-3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = repeat(given.run, given.steps)
    worst = max(rows, key=lambda row: row["difference"])
    if given.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in [*rows[:: max(1, len(rows) // 10)], rows[-1]]:
            print(f"step {row['step']:>5}  loss {row['loss']:.6f}  PyTorch {row['pytorch_loss']:.6f}  difference {row['difference']:.1e}")
        print(f"{len(rows)} steps, largest difference {worst['difference']:.2e} at step {worst['step']}, gate {given.gate:g}")
    return int(worst["difference"] > given.gate)


if __name__ == "__main__":
    exit_with(main)
