"""LoRA rank 8 on all seven projections of SmolLM2-135M, 512 tokens a row, beside PEFT from the same weights: losses, reload, tokens/s.

    python -m validation.lora_acceptance MODEL_FOLDER [--steps 50] [--device D] [--torch cpu|cuda] [--rows 1] [--to FILE]
    python -m validation.lora_acceptance --random           the same shape with random weights and tokens, where there is no package

FILE: JSON of everything measured so far, written after each step, so that a run that is cut off has said something. Every step is told
as it ends. Ends with 1 when a loss differs by more than 1e-3, or when the adapter computes something else in PEFT. Development only.
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from hierarchos.models.load import load_model, save_model
from hierarchos.models.registry import resolve
from hierarchos.peft.adapted import adapted
from hierarchos.peft.compute import logits_graph
from hierarchos.peft.config import LoraConfig
from hierarchos.peft.files import save_adapter
from hierarchos.peft.load import hash_of
from hierarchos.peft.start import Start
from pipelines.bench.lora import PROJECTIONS
from pipelines.bench.lora import SMOLLM2 as SHAPE
from validation.command import exit_with
from validation.instruction_rows import chat_rows

LENGTH, RATE, GATE, RELOAD = 512, 2e-4, 1e-3, 1e-4      # RELOAD: of the largest logit
OURS, PEFT = "hierarchos", "peft"


def batches_of(folder: Path, rows: int, steps: int, random: bool, vocabulary: int) -> list[dict]:
    """Batches of `rows` packed rows of 512 tokens: instruction data through the package's chat template, or random ids."""
    shape = (rows, LENGTH)
    if not random:
        return chat_rows(folder, rows, LENGTH, steps)
    generator = np.random.default_rng(0)
    found = []
    for _ in range(steps):
        ids = generator.integers(0, vocabulary, shape).astype(np.int32)
        targets = np.concatenate([ids[:, 1:], np.full((rows, 1), -100, np.int32)], 1)
        found.append({"ids": ids, "positions": np.tile(np.arange(LENGTH, dtype=np.int32), (rows, 1)), "segments": np.ones(shape, np.int32),
                      "targets": targets, "token_weights": (targets >= 0).astype(np.float32)})
    return found


class Log:
    """Tells each step and keeps it in a file, where one is given."""

    def __init__(self, path: str | None, steps: int):
        self.path, self.steps, self.kept = path and Path(path), steps, {}

    def keep(self, **facts) -> None:
        self.kept |= facts
        if self.path:
            self.path.write_text(json.dumps(self.kept, indent=1) + "\n", encoding="utf-8")

    def step(self, who: str, losses: list[float], seconds: list[float]) -> None:
        """After each step of one side."""
        left = (self.steps - len(losses)) * statistics.median(seconds)
        told = f"{who} {len(losses)}/{self.steps}  loss {losses[-1]:.6f}  {seconds[-1]:.1f} s"
        if who != OURS:
            ours = self.kept[f"losses_{OURS}"][len(losses) - 1]
            told += f"  ours differs by {abs(ours - losses[-1]):.1g}"
        print(f"{told}  {left:.0f} s left", file=sys.stderr, flush=True)
        self.keep(**{f"losses_{who}": losses, f"seconds_{who}": [round(one, 3) for one in seconds]})


class Ours:
    """The step that `hierarchos finetune` runs."""

    def __init__(self, loaded, model, values, device, batch: dict):
        from hierarchos.graph.program import compile_program
        from hierarchos.training.need import Planner
        from hierarchos.training.state import TrainingState
        from hierarchos.training.step import TrainStep
        from validation.parity.engine import Settings

        settings = Settings()
        settings.optimizer.weight_decay, settings.max_grad_norm = 0.01, 1.0
        rows, length = batch["ids"].shape
        self.need = Planner(model, device).training(settings, [(rows, length)])
        self.model, self.device = model, device
        self.state = TrainingState(model, device, settings.optimizer)
        self.step = TrainStep(self.state, settings)
        self.state.load(values)
        self.step.step_program(rows, length)
        self.logits = compile_program(logits_graph(model, 1, length), device, self.state.store, label="logits")

    def run(self, batches: list[dict], log: Log) -> tuple[list[float], list[float]]:
        """Losses and seconds of each step."""
        losses, seconds = [], []
        for number, batch in enumerate(batches):
            begun = time.perf_counter()
            losses.append(self.step.run([batch], number, RATE).loss)
            seconds.append(time.perf_counter() - begun)
            log.step(OURS, losses, seconds)
        return losses, seconds


def peft_run(folder: Path, adapter: Path, batches: list[dict], torch_device: str, log: Log):
    """PEFT, eager, float32: the model, and losses and seconds of each step."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    torch.backends.cuda.matmul.allow_tf32 = False
    base = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    model = PeftModel.from_pretrained(base, adapter, is_trainable=True).train().to(torch_device)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.01, eps=1e-8)
    losses, seconds = [], []
    for batch in batches:
        begun = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(model, batch, torch_device)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        if torch_device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
        log.step(PEFT, losses, seconds)
    return model, losses, seconds


def loss_of(model, batch: dict, device: str):
    """Mean next-token loss of the trained tokens, attention inside documents only."""
    import torch
    import torch.nn.functional as F

    tensors = {name: torch.from_numpy(array).to(device) for name, array in batch.items()}
    nll = F.cross_entropy(outputs(model, tensors).flatten(0, 1), tensors["targets"].long().flatten(), ignore_index=-100, reduction="none")
    return (nll * tensors["token_weights"].flatten()).sum() / tensors["token_weights"].sum()


def outputs(model, tensors: dict):
    import torch

    segments = tensors["segments"]
    length = segments.shape[1]
    seen = (segments[:, :, None] == segments[:, None, :]) & torch.ones(length, length, dtype=torch.bool, device=segments.device).tril()
    mask = torch.zeros(seen.shape, device=segments.device).masked_fill(~seen, torch.finfo(torch.float32).min)[:, None]
    return model(input_ids=tensors["ids"].long(), position_ids=tensors["positions"].long(), attention_mask=mask, use_cache=False).logits


def reload_difference(folder: Path, adapter: Path, ours: Ours, batch: dict, torch_device: str) -> tuple[float, float]:
    """Largest difference of logits between our trained adapter in PEFT and here, and the largest logit."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    one = {name: array[:1] for name, array in batch.items()}
    here = ours.logits.run({name: one[name] for name in ("ids", "positions", "segments")})["logits"]
    base = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    model = PeftModel.from_pretrained(base, adapter).eval().to(torch_device)
    with torch.no_grad():
        there = outputs(model, {name: torch.from_numpy(array).to(torch_device) for name, array in one.items()}).cpu().numpy()
    seen = one["segments"] > 0
    return float(np.abs(here - there)[seen].max()), float(np.abs(there[seen]).max())


def main() -> int:
    options = parse()
    from hierarchos.vulkan import budget_of, open_device

    device, log = open_device(options.device), Log(options.to, options.steps)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        folder = Path(options.model) if options.model else work / "base"
        if not options.model:
            made = resolve(SHAPE)
            save_model(folder, made, made.initial_values(0))
        loaded = load_model(folder)
        model = adapted(loaded.model, LoraConfig(r=8, lora_alpha=16, target_modules=PROJECTIONS))
        values = Start(model, loaded.values(), 0)
        identity = hash_of(loaded)
        save_adapter(work / "start", model, values, base_name=str(folder), base_hash=identity)
        batches = batches_of(folder, options.rows, options.steps, not options.model, model.config.vocab_size)
        ours = Ours(loaded, model, values, device, batches[0])
        print(f"needs {ours.need.total / 2**20:.0f} MiB of {budget_of(device).text()} on {device.info.name}", file=sys.stderr, flush=True)
        losses, seconds = ours.run(batches, log)
        print(f"ours: {tokens_per_second(options.rows, seconds):.1f} tokens/s", file=sys.stderr, flush=True)
        trained = {spec.name: ours.state.store.read(spec.name) for spec in model.trained}
        save_adapter(work / "trained", model, trained, base_name=str(folder), base_hash=identity)
        _, theirs, others = peft_run(folder, work / "start", batches, options.torch, log)
        difference, largest = reload_difference(folder, work / "trained", ours, batches[0], options.torch)
    found = {"model": options.model or "random, shape of SmolLM2-135M", "device": device.info.name, "driver": device.info.driver,
             "torch_device": options.torch, "steps": options.steps, "tokens_a_step": options.rows * LENGTH,
             "trained_parameters": sum(spec.size for spec in model.trained), "needed_mib": round(ours.need.total / 2**20, 1),
             "peak_mib": round(device.memory.peak / 2**20, 1), "first_loss": losses[0], "last_loss": losses[-1],
             "last_loss_peft": theirs[-1], "largest_loss_difference": max(abs(a - b) for a, b in zip(losses, theirs, strict=True)),
             "reload_difference": difference, "largest_logit": largest, "tokens_per_second": tokens_per_second(options.rows, seconds),
             "tokens_per_second_peft": tokens_per_second(options.rows, others)}
    passed = found["largest_loss_difference"] <= GATE and difference <= RELOAD * max(1.0, largest)
    log.keep(**found, passed=passed)
    report(found)
    return int(not passed)


def tokens_per_second(rows: int, seconds: list[float]) -> float:
    """Of the median step; the first one, which compiles and warms up, is left out."""
    return rows * LENGTH / statistics.median(seconds[1:] or seconds)


def report(found: dict) -> None:
    """Both sides, in columns."""
    print(f"{'':28}{'hierarchos':>16}{'PEFT eager fp32':>18}")
    print(f"{'':28}{found['device'][:15]:>16}{found['torch_device']:>18}")
    print(f"{'tokens/s':28}{found['tokens_per_second']:>16.1f}{found['tokens_per_second_peft']:>18.1f}"
          f"   {found['tokens_per_second'] / found['tokens_per_second_peft']:.2f}x")
    print(f"{'loss of the last step':28}{found['last_loss']:>16.6f}{found['last_loss_peft']:>18.6f}")
    print(f"largest difference of a loss over {found['steps']} steps: {found['largest_loss_difference']:.2g} (gate {GATE:g})")
    print(f"adapter in PEFT: logits differ by {found['reload_difference']:.2g} at most, the largest is {found['largest_logit']:.3g}")
    print(f"memory: {found['peak_mib']:.0f} MiB at the peak, {found['needed_mib']:.0f} planned for training, the rest for comparing")


def parse():
    parser = argparse.ArgumentParser(prog="python -m validation.lora_acceptance", description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="package folder of SmolLM2-135M")
    parser.add_argument("--random", action="store_true", help="random weights of that shape instead")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--torch", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--to", metavar="FILE", help="where JSON goes")
    options = parser.parse_args()
    if bool(options.model) == options.random:
        parser.error("give a package folder, or --random")
    return options


if __name__ == "__main__":
    exit_with(main)
