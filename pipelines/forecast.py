"""What a run would do and need, before it starts: rows, steps, memory by kind, disk, and time from a short probe."""
from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines import execute
from pipelines.memory import memory_line, refuse_hopeless, table_of
from pipelines.progress import duration
from pipelines.stage import Artefact, Context
from pipelines.stages import coherent_memory, coherent_package
from pipelines.stages.adapters import base_line
from pipelines.stages.packages import batches, start_model, tokenizer_of
from pipelines.stages.tokenize import TRAIN, VALIDATION

if TYPE_CHECKING:
    from hierarchos.data.batches import BatchStream
    from hierarchos.graph.need import Need
    from hierarchos.models.family import Model
    from hierarchos.training.loop import StepReport, Trainer

PROBED = 4                     # steps; the first one compiles
PROBE_SECONDS = 60.0           # after which a probe ends at its next step
SUGGESTED = 3                  # other settings that would fit


@dataclass
class Forecast:
    """Lines by heading; `fits` is None where no stage needs planning."""

    parts: dict[str, list[str]] = field(default_factory=dict)
    fits: bool | None = None

    def lines(self) -> list[str]:
        return [line for title, lines in self.parts.items() for line in (title, *(f"  {text}" for text in lines))]


def forecast(job: execute.Job, probe: bool) -> Forecast:
    """Looks at a checked job. Rows are read, and their tokens kept in the stage cache, where the run will find them."""
    found = Forecast({"stages": execute.explained(job)})
    names = [stage.name for stage in job.stages]
    if not {"tokenize", "train"} <= set(names):
        found.parts["memory"] = ["is planned for training only"]
        return found
    with tempfile.TemporaryDirectory() as folder:
        context = Context(job.config, None, job.progress, folder=Path(folder))
        try:
            acquire_rows(job, context)
            look_at_training(found, context, probe)
        finally:
            context.close()
    return found


def acquire_rows(job: execute.Job, context: Context) -> None:
    """The stages before training, for real: from the cache, or into it."""
    for stage in job.stages:
        if stage.name == "train":
            return
        key = stage.key(context)
        kept = job.cache.find(stage.name, key) if stage.cached else None
        if kept is None and stage.cached:
            kept = job.cache.make(stage.name, key, lambda made, stage=stage: run_in(stage, context, made))
        context.artefacts[stage.name] = kept or in_memory(stage, context)


def in_memory(stage: object, context: Context) -> Artefact:
    """A stage without kept files: its facts."""
    facts = run_in(stage, context, context.folder)
    return Artefact(context.folder, facts.pop("digest", ""), facts)


def run_in(stage: object, context: Context, folder: Path) -> dict:
    context.folder, before = folder, context.folder
    try:
        return dict(stage.run(context))
    finally:
        context.folder = before


def look_at_training(found: Forecast, context: Context, probe: bool) -> None:
    """Rows, steps, memory, disk and time of the stage train."""
    from hierarchos.training.settings import total_steps

    config, facts = context.config, context.artefacts["tokenize"].facts
    if coherent_package.of_run(context):
        more, found.fits = coherent_memory.forecast_lines(context)
        found.parts |= more
        return
    model, values = start_model(context, tokenizer_of(context))
    train = batches(context, TRAIN, model, config.train.batch_size, config.train.shuffle)
    held_out = batches(context, VALIDATION, model, config.train.batch_size, False)
    validation = list(islice(held_out.epoch(), config.train.eval_batches)) if held_out is not None else []
    steps = total_steps(config.train, len(train))
    found.parts["rows"] = [f"{facts['rows'].get('used', 0):,} used of {facts['rows'].get('rows', 0):,}; {facts['documents']:,} documents",
                           f"{facts['tokens']:,} tokens, {facts['trained_tokens']:,} of them trained; "
                           f"{facts['validation_tokens']:,} for validation; vocabulary {facts['vocab_size']:,}"]
    found.parts["steps"] = steps_lines(config.train, steps, len(train), len(validation))
    need = plan_memory(found, context, model, train, validation)
    found.parts["disk"] = disk_lines(context, need)
    if probe and found.fits:
        found.parts["time"] = time_lines(*probe_steps(context, model, values(), train), steps, config.train, len(validation))
    elif probe:
        found.parts["time"] = ["is measured once the run fits"]


def steps_lines(train: object, steps: int, batches_an_epoch: int, validation: int) -> list[str]:
    """How many steps, and of what."""
    passes = steps * train.accumulation / max(1, batches_an_epoch)
    accumulated = f" x {train.accumulation} batches" if train.accumulation > 1 else ""
    return [f"{steps:,} steps of {train.batch_size} x {train.sequence_length} tokens{accumulated}: {passes:.2f} passes over the rows",
            f"{validations(train, steps):,} validations of {validation:,} batches"]


def validations(train: object, steps: int) -> int:
    """How often the loss on the held-out rows is measured."""
    return -(-steps // train.eval_every) if train.eval_every else 1


def plan_memory(found: Forecast, context: Context, model: Model, train: BatchStream, validation: Sequence[dict]) -> Need:
    """The exact peak by kind, against what the device can give now; other settings where that is less."""
    from hierarchos.training.advice import alternatives, states
    from hierarchos.training.need import Planner
    from hierarchos.training.precision import Precision
    from hierarchos.vulkan import budget_of
    from pipelines.tuning import tuned

    config, shapes = context.config, train.shapes()
    planner = Planner(model, context.device, Precision.of(config.precision))
    refuse_hopeless(context, "training", states(planner, config.train))
    with tuned(context):
        need = planner.training(config.train, shapes, sorted({batch["ids"].shape for batch in validation}))
    budget = budget_of(context.device)
    found.fits = need.total <= budget.free or config.device.ignore_heap
    verdict = "it fits" if need.total <= budget.free else "it does NOT fit"
    lines = [memory_line(need).removeprefix("memory: "), f"{context.device.info.name} has {budget.text()}: {verdict}"]
    if need.total > budget.free:
        tried = sorted(alternatives(planner, config.train, shapes, budget.free), key=lambda one: one.need.total > budget.free)
        lines += table_of(tried[:SUGGESTED], budget.free)
    found.parts["memory"] = [*filter(None, [base_line(model)]), *lines]
    return need


def disk_lines(context: Context, need: Need) -> list[str]:
    """Checkpoints and the package, against what is free."""
    train, outputs = context.config.train, Path(context.config.run.outputs).resolve()
    weights = need.items.get("weights", 0)
    state = weights + need.items.get("moments", 0)
    kept = train.keep_last + int(train.keep_best) + 1                    # one more while a new one is written
    total = state * kept + weights * (2 if context.config.export.path else 1)
    place = next(folder for folder in (outputs, *outputs.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    short = "" if total < free else ": NOT enough"
    return [f"about {size(total)}: up to {kept} checkpoints of {size(state)}, package {size(weights)}; {size(free)} are free{short}"]


def size(count: int) -> str:
    """Bytes for people."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


class Enough(Exception):
    """Ends a probe."""


class Stopwatch:
    """Notes how long each step took; ends the probe after a few."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def started(self, trainer: Trainer) -> None:
        """Nothing to show."""

    def stepped(self, report: StepReport) -> None:
        self.seconds.append(report.seconds)
        if len(self.seconds) >= PROBED or sum(self.seconds) > PROBE_SECONDS:
            raise Enough

    def validated(self, step: int, loss: float, best: bool) -> None:
        """Not part of a probe."""

    def saved(self, checkpoint: object) -> None:
        """Not part of a probe."""


def probe_steps(context: Context, model: Model, values: dict, train: BatchStream) -> tuple[float, float]:
    """Seconds of the first step, which compiles, and of a later one: a few real steps whose result is thrown away."""
    from hierarchos.training.loop import Trainer
    from hierarchos.training.precision import Precision

    config, watch = context.config, Stopwatch()
    settings = replace(config.train, steps=PROBED + 1, eval_every=0, checkpoint_every=0)
    trainer = Trainer(model, settings, train, [], context.device, context.folder, seed=config.run.seed, observer=watch,
                      precision=Precision.of(config.precision))
    trainer.start(values)
    with suppress(Enough):
        trainer.run()
    first, *later = watch.seconds
    return first, statistics.median(later) if later else first


def time_lines(first: float, later: float, steps: int, train: object, validation: int) -> list[str]:
    """A rough total: a validation batch is a third of a training batch."""
    measuring = validations(train, steps) * validation * later / train.accumulation / 3
    total = first + (steps - 1) * later + measuring
    return [f"{later * 1e3:.1f} ms a step (the median of {PROBED - 1}), {first:.1f} s for the first, which compiles",
            f"about {duration(total)} in all, {duration(measuring)} of them for validation; export and generation come on top"]
