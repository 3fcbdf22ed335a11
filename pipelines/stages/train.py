"""Trains the model; checkpoints and metrics.jsonl lie in the run directory, so that a run can be continued."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.files import write_json
from pipelines.hashing import hash_json
from pipelines.memory import refuse_hopeless, require_memory, table_of
from pipelines.profiling import kernel_table
from pipelines.stages.adapters import base_line, check_trained
from pipelines.stages.base import BaseStage
from pipelines.stages.checks import check_generation
from pipelines.stages.packages import batches, start_model, tokenizer_of
from pipelines.stages.tokenize import TRAIN, VALIDATION

if TYPE_CHECKING:
    from hierarchos.data.batches import BatchStream
    from hierarchos.graph.need import Need
    from hierarchos.models.family import Model
    from hierarchos.training.loop import StepReport, Trainer, TrainResult
    from pipelines.config import Config
    from pipelines.stage import Context

TRACKED = ("loss", "learning_rate", "gradient_norm", "loss_scale")
NOT_TRAINED = ("adapters", "active")       # settings of peft that are for using adapters


class Train(BaseStage):
    """Facts: steps, losses, and `checkpoint`, the folder to export from (relative to the run directory)."""

    name = "train"
    groups = ("train", "model", "data", "peft")
    inputs = ("acquire", "tokenize")
    modules = ("hierarchos",)
    uses_device = True

    def check(self, config: Config) -> None:
        """What an adapter is trained beside."""
        check_trained(config)

    def settings(self, config: Config) -> dict:
        """The loop, the fresh model's shape, how rows are laid into batches, and number formats."""
        data = {name: getattr(config.data, name) for name in ("layout", "pad_to", "pad_multiple", "mask_share", "mask_whole_words")}
        model = {"source": config.model.source, "config": config.model.config}
        peft = {name: value for name, value in dataclasses.asdict(config.peft).items() if name not in NOT_TRAINED}
        return {"train": dataclasses.asdict(config.train), "model": model, "data": data, "peft": peft,
                "precision": dataclasses.asdict(config.precision)}

    def folder_in(self, run: Path, default: Path) -> Path:
        """Training writes at the top of the run directory."""
        return run

    def run(self, context: Context) -> dict:
        """Runs all remaining steps; raises NotFinite when a loss is not a number."""
        from hierarchos.training.loop import Trainer
        from hierarchos.training.precision import Precision

        config, tokenizer = context.config, tokenizer_of(context)
        model, values = start_model(context, tokenizer)
        check_generation(context, tokenizer, model)
        train = batches(context, TRAIN, model, config.train.batch_size, config.train.shuffle)
        held_out = batches(context, VALIDATION, model, config.train.batch_size, False)
        validation = list(islice(held_out.epoch(), config.train.eval_batches)) if held_out is not None else []
        for line in filter(None, (base_line(model), step_line(config, len(train)))):
            context.progress.line(line)
        need = planned_need(context, model, train, validation)
        observer = ProgressObserver(context)
        trainer = Trainer(model, config.train, train, validation, context.device, context.folder, seed=config.run.seed,
                          observer=observer, profile=config.run.profile, fingerprint=hash_json(self.settings(config)),
                          precision=Precision.of(config.precision))
        first = values()
        if context.resuming and resumed(context, trainer):
            trainer.state.load_frozen(first)
        else:
            trainer.start(first)
        with account_of_loss(trainer):
            result = trainer.run()
        if config.run.profile:
            write_json(context.run.stage_folder(self.name) / "kernels.json", kernel_table(context.progress, trainer.step.programs))
        memory = {"planned_bytes": need.total, "peak_bytes": context.device.memory.peak, "memory": dict(need.items)}
        return facts_of(result, context.run.path, model.size) | memory


def step_line(config: Config, batches_an_epoch: int) -> str | None:
    """Says that a step takes rows more than once, in words; None where it does not."""
    accumulation = config.train.accumulation
    if accumulation <= batches_an_epoch:
        return None
    return (f"train: train.accumulation={accumulation} takes more batches than the {batches_an_epoch} of an epoch: rows count several "
            "times in a step")


def planned_need(context: Context, model: Model, train: BatchStream, validation: Sequence[dict]) -> Need:
    """What the run needs at its largest batches; raises DoesNotFit, with settings that would fit, before anything is allocated."""
    from hierarchos.training.advice import alternatives, states
    from hierarchos.training.need import Planner
    from hierarchos.training.precision import Precision
    from hierarchos.vulkan.errors import OutOfMemory
    from pipelines.tuning import tuned

    settings, planner, shapes = context.config.train, Planner(model, context.device, Precision.of(context.config.precision)), train.shapes()
    refuse_hopeless(context, "training", states(planner, settings))
    try:
        with tuned(context):
            need = planner.training(settings, shapes, sorted({batch["ids"].shape for batch in validation}))
    except OutOfMemory as error:
        error.add_note("settings that help: train.batch_size (with train.accumulation), train.sequence_length, device.select")
        raise
    require_memory(context, "training", need, lambda limit: table_of(alternatives(planner, settings, shapes, limit), limit))
    return need


def resumed(context: Context, trainer: Trainer) -> bool:
    """Whether there was a checkpoint to go on from; what is left out is told."""
    from hierarchos.training.checkpoint import left_out

    for path in left_out(trainer.checkpoint_folder):
        context.progress.line(f"train: {path.relative_to(context.run.path).as_posix()} is not whole and is left out")
    if trainer.resume() is None:
        context.progress.line("train: there is no whole checkpoint; training starts at step 1")
        return False
    return True


@contextmanager
def account_of_loss(trainer: Trainer) -> Iterator[None]:
    """Adds to an error of the device how far training was, what is saved, and which settings help."""
    from hierarchos.training.checkpoint import latest_checkpoint
    from hierarchos.vulkan.errors import VulkanError

    try:
        yield
    except VulkanError as error:
        kept = latest_checkpoint(trainer.checkpoint_folder)
        saved = f"checkpoint {kept.path.name} is whole, run.resume=latest goes on from it" if kept else "no checkpoint was written yet"
        error.add_note(f"{trainer.counters.step} of {trainer.steps} steps were done; {saved}")
        error.add_note("settings that help: train.batch_size, train.sequence_length, train.recompute, device.max_submit_ms, device.select")
        raise


def facts_of(result: TrainResult, run: Path, parameters: int) -> dict:
    """What run.json keeps; the digest is that of the chosen checkpoint's tensors."""
    rate = result.tokens / result.seconds if result.seconds else 0.0
    return {"steps": result.steps, "loss": result.loss, "validation_loss": result.validation_loss, "parameters": parameters,
            "best_step": result.best_step, "best_loss": result.best_loss, "tokens": result.tokens, "tokens_per_second": round(rate, 1),
            "checkpoint": result.chosen.path.resolve().relative_to(run.resolve()).as_posix(),
            "digest": result.chosen.manifest["state_sha256"]}


def prepare_largest(trainer: Trainer) -> None:
    """Compiles the largest step before the first one, so that memory never grows during training."""
    shape = trainer.train_batches.shapes()[0]
    if trainer.settings.accumulation == 1:
        trainer.step.step_program(*shape)
    else:
        trainer.step.gradient_program(*shape, accumulate=False)


class ProgressObserver:
    """Shows steps on the progress bar."""

    def __init__(self, context: Context):
        self.progress, self.log, self.tracker = context.progress, context.log, context.tracker
        self.watch, self.bar = context.watch, None
        self.validation = {}

    def started(self, trainer: Trainer) -> None:
        done = trainer.counters.step
        continued = f", continued after step {done}" if done else ""
        whole, trained = trainer.model.size, sum(spec.size for spec in trainer.state.specs)
        share = f", {trained:,} of them trained ({100 * trained / whole:.2g}%)" if trained < whole else ""
        self.progress.line(f"train: {whole:,} parameters{share}, {trainer.steps} steps{continued}")
        prepare_largest(trainer)
        self.bar = self.progress.start("train", trainer.steps, done)

    def stepped(self, report: StepReport) -> None:
        rate = f"{report.tokens / report.seconds:.0f} tokens/s"
        self.log.debug("step %d loss %.6f gradient norm %.4f", report.step, report.loss, report.gradient_norm)
        if self.tracker is not None:
            self.tracker.log(report.step, {f"train/{name}": value for name in TRACKED if (value := getattr(report, name)) is not None}
                             | {"train/tokens_per_second": report.tokens / report.seconds})
        self.bar.update(report.step, loss=report.loss, **self.validation, rate=rate)
        if report.step == report.steps:
            self.bar.finish()

    def validated(self, step: int, loss: float, best: bool) -> None:
        self.validation = {"validation": loss}
        if self.tracker is not None:
            self.tracker.log(step, {"validation/loss": loss})
        if self.watch is not None:
            self.watch(step, loss)
        self.log.info("step %d validation loss %.6f%s", step, loss, " (best)" if best else "")

    def saved(self, checkpoint: object) -> None:
        self.log.info("checkpoint %s", checkpoint.path.name)
