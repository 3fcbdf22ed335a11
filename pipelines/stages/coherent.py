"""Stages where the model may be of the family `hierarchos` (coherent-v9); for every other model they are the general ones."""
from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from pipelines.files import write_text
from pipelines.hashing import hash_folder, hash_json
from pipelines.stages import acquire, evaluate, export, generate, train
from pipelines.stages.coherent_chat import continued, converse
from pipelines.stages.coherent_memory import planned
from pipelines.stages.coherent_package import applies, check_model, loaded, of_run, start, stream, trained_names
from pipelines.stages.coherent_settings import check_settings, check_unused
from pipelines.stages.packages import tokenizer_of
from pipelines.stages.tokenize import TRAIN, VALIDATION

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.data.batches import BatchStream
    from pipelines.config import Config
    from pipelines.stage import Context

GENERAL = ("pipelines.stages.acquire", "pipelines.stages.train", "pipelines.stages.export", "pipelines.stages.evaluate",
           "pipelines.stages.generate", "pipelines.stages.coherent_package", "pipelines.stages.coherent_chat")


class Acquire(acquire.Acquire):
    """Knows Hierarchos packages too."""

    modules = GENERAL

    def check(self, config: Config) -> None:
        if not applies(config):
            if config.model.source != "hub":
                check_unused(config)
            return super().check(config)
        if acquire.reads_rows(config):
            acquire.data_files(config.data)
            acquire.validation_files(config.data)
        check_settings(config)
        check_model(config)
        if config.tokenizer.source == "file":
            acquire.check_tokenizer_file(config)
        return None

    def run(self, context: Context) -> dict:
        """A package of the Hub is known, and its settings are checked, once it is here."""
        facts = super().run(context)
        if context.config.model.source == "hub" and applies(context.config, facts["model"]):
            check_settings(context.config)
            check_model(context.config, facts["model"])
        elif context.config.model.source == "hub":
            check_unused(context.config)
        return facts


class Train(train.Train):
    """Trains coherent-v9 in chunks with carried state."""

    groups = (*train.Train.groups, "coherent")
    modules = ("hierarchos", *GENERAL)

    def settings(self, config: Config) -> dict:
        extra = {"coherent": [config.coherent.trained, config.coherent.max_ce_for_backward, config.coherent.normalization,
                              config.coherent.length_buckets, config.coherent.persist_state]}
        return super().settings(config) | (extra if config.model.source == "hub" or applies(config) else {})

    def run(self, context: Context) -> dict:
        from hierarchos.training.coherent.step import Objective
        from hierarchos.training.coherent.trainer import CoherentTrainer

        if not of_run(context):
            return super().run(context)
        config = context.config
        cfg, values, warmup_step = start(context)
        batches = stream(context, TRAIN, config.train.batch_size, config.train.shuffle)
        held_out = stream(context, VALIDATION, config.train.batch_size, False)
        validation = list(islice(held_out.epoch(), config.train.eval_batches)) if held_out is not None else []
        tell_about_rows(context, batches)
        tell_about_tensors(context, trained_names(config, cfg), values)
        chunk = planned(context, cfg, batches)
        objective = Objective(config.coherent.max_ce_for_backward, config.coherent.normalization, config.train.max_grad_norm or 1.0)
        trainer = CoherentTrainer(cfg, config.train, batches, validation, context.device, context.folder,
                                  shape=(config.train.batch_size, max(length for _, length in batches.shapes())), padded=True,
                                  seed=config.run.seed, observer=train.ProgressObserver(context), objective=objective,
                                  fingerprint=hash_json(self.settings(config)), trained=trained_names(config, cfg), chunk=chunk,
                                  persist=config.coherent.persist_state)
        trainer.state.warmup_start = warmup_step
        if not (context.resuming and train.resumed(context, trainer)):
            trainer.start(values)
        with train.account_of_loss(trainer):
            result = trainer.run()
        size = sum(value.size for value in values.values())
        return train.facts_of(result, context.run.path, size) | {"peak_bytes": context.device.memory.peak}


def tell_about_rows(context: Context, batches: BatchStream) -> None:
    """Says where the state runs on over the end of a document."""
    pieces, rows = len(batches.plan.length), len(batches.plan)
    if pieces > rows:
        context.progress.line(f"train: {rows} rows hold {pieces} documents, and the state runs on over their ends; "
                              "data.layout=pad keeps one document in a row")


def tell_about_tensors(context: Context, trained: frozenset[str] | None, values: Mapping[str, np.ndarray]) -> None:
    """Says how much of the model changes, where that is not all of it."""
    if trained is not None:
        changing, size = sum(values[name].size for name in trained), sum(value.size for value in values.values())
        context.progress.line(f"train: {len(trained)} of {len(values)} tensors change, {changing:,} of {size:,} numbers "
                              "(coherent.trained; peft=none: all)")


class Export(export.Export):
    """Writes Hierarchos packages."""

    modules = (*export.Export.modules, *GENERAL)

    def run(self, context: Context) -> dict:
        from hierarchos.models.coherent_v9.config import MODEL_TYPE
        from hierarchos.models.coherent_v9.package import fresh_buffers, load, save

        if not of_run(context):
            return super().run(context)
        source, tokenizer = context.artefacts["acquire"].facts["model"], tokenizer_of(context)
        trained = load(context.run.path / context.artefacts["train"].facts["checkpoint"])
        special = {"bos_token_id": tokenizer.bos_id, "pad_token_id": tokenizer.pad_id, "model_type": MODEL_TYPE,
                   "architectures": ["HierarchosLM"]}
        files = export.tokenizer_files(context, SimpleNamespace(raw=special))
        buffers = fresh_buffers(trained.config, float(trained.buffers["memory_gate_warmup_step"]))         # an empty fast memory
        save(context.folder / "package", trained.config, trained.values, buffers, companions=source, files=files)
        for path in (context.folder / "package").iterdir():
            path.rename(context.folder / path.name)
        (context.folder / "package").rmdir()
        if context.config.export.path:
            export.copy_whole(context.folder, Path(context.config.export.path))
        size = sum(path.stat().st_size for path in context.folder.iterdir())
        return {"mib": round(size / export.MIB, 2), "digest": hash_folder(context.folder)}


class Evaluate(evaluate.Evaluate):
    """Measures Hierarchos packages."""

    modules = ("hierarchos", *GENERAL)

    def run(self, context: Context) -> dict:
        from hierarchos.training.coherent.state import CoherentState
        from hierarchos.training.coherent.step import CoherentStep, Objective
        from hierarchos.training.step import trained_tokens

        if not of_run(context):
            return super().run(context)
        config, package = context.config, loaded(context)
        size = config.evaluate.batch_size
        batches = stream(context, VALIDATION, size, False) or stream(context, TRAIN, size, False)
        count = min(len(batches), config.evaluate.max_batches or len(batches))
        state = CoherentState(package.config, context.device, config.train.optimizer, 0.0)
        state.load(package.values)
        state.warmup_step = float(package.buffers["memory_gate_warmup_step"])
        step = CoherentStep(state, size, max(length for _, length in batches.shapes()), True, Objective())
        bar, loss, tokens = context.progress.start("evaluate", count), 0.0, 0.0
        for index, batch in enumerate(islice(batches.epoch(), count)):
            weight = trained_tokens(batch)
            loss, tokens = loss + step.evaluate([batch]) * weight, tokens + weight
            bar.update(index + 1, loss=loss / tokens)
        bar.finish()
        return {"loss": loss / tokens, "perplexity": math.exp(min(loss / tokens, 700.0)), "tokens": round(tokens)}


class Generate(generate.Generate):
    """Continues texts with Hierarchos packages."""

    groups = (*generate.Generate.groups, "coherent")
    modules = ("hierarchos", *GENERAL)

    def run(self, context: Context) -> dict:
        if not of_run(context):
            return super().run(context)
        conversation = converse(context)
        prompts = generate.prompts_of(context, conversation.tokenizer)
        lines = []
        for prompt in prompts:
            answer = conversation.turn(prompt) if context.config.generate.chat else continued(conversation, prompt)
            lines.append(f"{prompt}{answer.text}")
            context.progress.line(f"generate: {lines[-1]}")
        write_text(context.folder / "text.txt", "\n".join(lines) + "\n")
        return {"new_tokens": len(answer.tokens), "stopped": answer.stopped, "prompt": prompts[0], "text": answer.text}
