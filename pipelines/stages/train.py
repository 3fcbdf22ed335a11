"""Trains the model; checkpoints and metrics.jsonl lie in the run directory, so that a run can be continued."""
from __future__ import annotations

import dataclasses
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.hashing import hash_json
from pipelines.profiling import kernel_table, memory_line
from pipelines.stages.base import BaseStage
from pipelines.stages.packages import batches, start_model, tokenizer_of
from pipelines.stages.tokenize import TRAIN, VALIDATION

if TYPE_CHECKING:
    from hierarchos.graph.program import Program
    from hierarchos.training.loop import StepReport, Trainer, TrainResult
    from pipelines.config import Config
    from pipelines.stage import Context


class Train(BaseStage):
    """Facts: steps, losses, and `checkpoint`, the folder to export from (relative to the run directory)."""

    name = "train"
    groups = ("train", "model", "data")
    inputs = ("acquire", "tokenize")
    modules = ("hierarchos",)
    uses_device = True

    def settings(self, config: Config) -> dict:
        """The loop, the fresh model's shape, and how rows are laid into batches."""
        data = {name: getattr(config.data, name) for name in ("layout", "pad_to", "pad_multiple")}
        model = {"source": config.model.source, "config": config.model.config}
        return {"train": dataclasses.asdict(config.train), "model": model, "data": data}

    def folder_in(self, run: Path, default: Path) -> Path:
        """Training writes at the top of the run directory."""
        return run

    def run(self, context: Context) -> dict:
        """Runs all remaining steps; raises NotFinite when a loss is not a number."""
        from hierarchos.training.loop import Trainer

        config, tokenizer = context.config, tokenizer_of(context)
        model, values = start_model(context, tokenizer)
        train = batches(context, TRAIN, config.train.batch_size, config.train.shuffle)
        held_out = batches(context, VALIDATION, config.train.batch_size, False)
        validation = list(islice(held_out.epoch(), config.train.eval_batches)) if held_out is not None else []
        observer = ProgressObserver(context)
        trainer = Trainer(model, config.train, train, validation, context.device, context.folder, seed=config.run.seed,
                          observer=observer, profile=config.run.profile, fingerprint=hash_json(self.settings(config)))
        if not (context.resuming and trainer.resume()):
            trainer.start(values)
        result = trainer.run()
        if config.run.profile:
            kernel_table(context.progress, trainer.step.programs)
        return facts_of(result, context.run.path, model.size)


def facts_of(result: TrainResult, run: Path, parameters: int) -> dict:
    """What run.json keeps; the digest is that of the chosen checkpoint's tensors."""
    rate = result.tokens / result.seconds if result.seconds else 0.0
    return {"steps": result.steps, "loss": result.loss, "validation_loss": result.validation_loss, "parameters": parameters,
            "best_step": result.best_step, "best_loss": result.best_loss, "tokens": result.tokens, "tokens_per_second": round(rate, 1),
            "checkpoint": result.chosen.path.resolve().relative_to(run.resolve()).as_posix(),
            "digest": result.chosen.manifest["state_sha256"]}


def largest_program(trainer: Trainer) -> Program:
    """The program of a step, compiled before the first one."""
    shape = trainer.settings.batch_size, trainer.settings.sequence_length
    if trainer.settings.accumulation == 1:
        return trainer.step.step_program(*shape)
    return trainer.step.gradient_program(*shape, accumulate=False)


class ProgressObserver:
    """Shows steps on the progress bar."""

    def __init__(self, context: Context):
        self.progress, self.log = context.progress, context.log
        self.bar = None
        self.validation = {}

    def started(self, trainer: Trainer) -> None:
        done = trainer.counters.step
        continued = f", continued after step {done}" if done else ""
        self.progress.line(f"train: {trainer.model.size:,} parameters, {trainer.steps} steps{continued}")
        self.progress.line(memory_line(largest_program(trainer)))
        self.bar = self.progress.start("train", trainer.steps, done)

    def stepped(self, report: StepReport) -> None:
        rate = f"{report.tokens / report.seconds:.0f} tokens/s"
        self.log.debug("step %d loss %.6f gradient norm %.4f", report.step, report.loss, report.gradient_norm)
        self.bar.update(report.step, loss=report.loss, **self.validation, rate=rate)
        if report.step == report.steps:
            self.bar.finish()

    def validated(self, step: int, loss: float, best: bool) -> None:
        self.validation = {"validation": loss}
        self.log.info("step %d validation loss %.6f%s", step, loss, " (best)" if best else "")

    def saved(self, checkpoint: object) -> None:
        self.log.info("checkpoint %s", checkpoint.path.name)
