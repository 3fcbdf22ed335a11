"""Stages where the model may be of the family `hierarchos` (coherent-v9); for every other model they are the general ones."""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.files import write_text
from pipelines.hashing import hash_file, hash_folder, hash_json
from pipelines.stages import acquire, evaluate, export, generate, train
from pipelines.stages.coherent_settings import check_settings
from pipelines.stages.packages import tokenizer_of
from pipelines.stages.tokenize import TRAIN, VALIDATION

if TYPE_CHECKING:
    from hierarchos.data.batches import BatchStream
    from hierarchos.generation.coherent.chat import Answer, Conversation
    from hierarchos.generation.coherent.feedback import Feedback
    from hierarchos.generation.coherent.sampling import Sampling
    from hierarchos.models.coherent_v9.chunk import Chunk
    from hierarchos.models.coherent_v9.config import Config as ModelConfig
    from hierarchos.models.coherent_v9.package import Loaded
    from pipelines.config import Config
    from pipelines.stage import Context

GENERAL = ("pipelines.stages.acquire", "pipelines.stages.train", "pipelines.stages.export", "pipelines.stages.evaluate",
           "pipelines.stages.generate")


def applies(config: Config, folder: str | None = None) -> bool:
    """Whether the run's model is a Hierarchos model: said by model.config, or by the package at `folder`."""
    from hierarchos.models.coherent_v9.package import is_package

    if config.model.source == "fresh":
        return config.model.config.get("model_type") == "hierarchos"
    folder = folder or config.model.path
    return folder is not None and is_package(folder)


def of_run(context: Context) -> bool:
    """The same, once the package is here."""
    return applies(context.config, context.artefacts["acquire"].facts["model"])


class Acquire(acquire.Acquire):
    """Knows Hierarchos packages too."""

    modules = GENERAL

    def check(self, config: Config) -> None:
        if not applies(config):
            return super().check(config)
        if acquire.reads_rows(config):
            acquire.data_files(config.data)
            acquire.validation_files(config.data)
        check_settings(config)
        check_model(config)
        if config.tokenizer.source == "file":
            acquire.check_tokenizer_file(config)
        return None

    def key(self, context: Context) -> dict:
        """The package's own configuration counts too."""
        key, path = super().key(context), context.config.model.path
        if context.config.model.source == "local" and applies(context.config):
            key["model"] |= {name.name: hash_file(name) for name in sorted(Path(path).glob("hierarchos*.json"))}
        return key


def check_model(config: Config) -> None:
    """The configuration resolves, and so does the package's."""
    from hierarchos.models.coherent_v9.config import resolve
    from hierarchos.models.coherent_v9.package import read_config

    if config.model.source == "fresh":
        resolve({"vocab_size": config.tokenizer.vocab_size, **config.model.config}, "model.config")
        return
    stored = read_config(config.model.path)
    resolve({**stored.values, **config.model.config}, "model.config")


def loaded(context: Context) -> Loaded:
    """The package that this run exported, or the one that it was given, with model.config's changes."""
    from hierarchos.models.coherent_v9.config import resolve
    from hierarchos.models.coherent_v9.package import load

    exported = context.latest("export")
    if exported is not None:
        return load(exported.folder)
    package, changes = load(context.artefacts["acquire"].facts["model"]), context.config.model.config
    if not changes:
        return package
    changed = resolve({**package.config.values, **package.config.status, **changes}, "model.config")
    return dataclasses.replace(package, config=changed)


def start(context: Context) -> tuple[ModelConfig, dict, float]:
    """Configuration, values and warm-up step that training starts from."""
    from hierarchos.data.tokenizer import check_vocabulary
    from hierarchos.models.coherent_v9.config import resolve
    from hierarchos.models.coherent_v9.parameters import initial_values

    config, tokenizer = context.config, tokenizer_of(context)
    if context.artefacts["acquire"].facts["model"] is None:
        cfg = resolve({"vocab_size": tokenizer.size, **config.model.config}, "model.config")
        check_vocabulary(tokenizer, cfg.vocab_size)
        return cfg, initial_values(cfg, config.run.seed), 0.0
    package = loaded(context)
    check_vocabulary(tokenizer, package.config.vocab_size)
    return package.config, package.values, float(package.buffers["memory_gate_warmup_step"])


def stream(context: Context, name: str, batch_size: int, shuffle: bool) -> BatchStream | None:
    """Batches of a token file in the portable order, or None where there is none."""
    from hierarchos.data.portable_order import PortableStream
    from pipelines.stages.packages import batches

    made = batches(context, name, SimpleNamespace(task="causal"), batch_size, shuffle)
    return None if made is None else PortableStream(made.file, made.options, context.config.coherent.length_buckets)


def trained_names(config: Config, cfg: ModelConfig) -> frozenset[str] | None:
    """Tensors that are trained; None: all. An adapter's place is taken by the model's own small tensors."""
    from hierarchos.models.coherent_v9.parameters import parameters

    if config.peft.method == "none":
        return None
    names = frozenset(spec.name for spec in parameters(cfg) if any(part in spec.name for part in config.coherent.trained))
    if not names:
        raise UserError("no tensor is trained", where="coherent.trained", hint="peft=none trains all of them")
    return names


class Train(train.Train):
    """Trains coherent-v9 in chunks with carried state."""

    groups = (*train.Train.groups, "coherent")
    modules = ("hierarchos", *GENERAL)

    def settings(self, config: Config) -> dict:
        extra = {"coherent": [config.coherent.trained, config.coherent.max_ce_for_backward, config.coherent.normalization,
                              config.coherent.length_buckets, config.coherent.persist_state]}
        return super().settings(config) | (extra if applies(config) else {})

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


def planned(context: Context, cfg: ModelConfig, batches: BatchStream) -> Chunk:
    """The programs of a chunk, once what training needs is known to fit; raises DoesNotFit otherwise."""
    from hierarchos.vulkan import DoesNotFit, budget_of

    chunk, items = memory_items(context.config, cfg, batches)
    budget = budget_of(context.device)
    if sum(items.values()) > budget.free and not context.config.device.ignore_heap:
        advice = ["a smaller train.batch_size (with train.accumulation) or train.sequence_length needs less tape, so does a smaller",
                  "model.config.training_chunk_size"]
        raise DoesNotFit("training", items, context.device.info.name, budget, advice)
    return chunk


def memory_items(config: Config, cfg: ModelConfig, batches: BatchStream) -> tuple[Chunk, dict[str, int]]:
    """The programs of a chunk and bytes by kind."""
    from hierarchos.coherent.need import training_bytes
    from hierarchos.models.coherent_v9.chunk import Chunk, Kind

    longest = max(length for _, length in batches.shapes())
    inner = cfg.ltm_training_mode == "inner-update"
    chunk = Chunk(cfg, Kind(config.train.batch_size, padded=True, own_memory=inner and cfg.isolate_batch_ltm))
    return chunk, training_bytes(chunk, longest if cfg.full_sample_bptt else min(cfg.training_chunk_size, longest))


def forecast_lines(context: Context) -> tuple[dict[str, list[str]], bool]:
    """What `hierarchos plan` says of rows, steps and memory, and whether it fits."""
    from hierarchos.training.settings import total_steps
    from hierarchos.vulkan import budget_of

    config = context.config
    batches = stream(context, TRAIN, config.train.batch_size, config.train.shuffle)
    _, items = memory_items(config, start(context)[0], batches)
    budget, total = budget_of(context.device), sum(items.values())
    fits = total <= budget.free or config.device.ignore_heap
    told = [f"{total / 2**20:,.0f} MiB: " + ", ".join(f"{name} {count / 2**20:,.1f}" for name, count in items.items()),
            f"{context.device.info.name} has {budget.text()}: {'it fits' if total <= budget.free else 'it does NOT fit'}"]
    steps = total_steps(config.train, len(batches))
    return {"steps": [f"{steps:,} steps of {config.train.batch_size} x {config.train.sequence_length} tokens"], "memory": told}, fits


def tell_about_rows(context: Context, batches: BatchStream) -> None:
    """Says where the state runs on over the end of a document."""
    pieces, rows = len(batches.plan.length), len(batches.plan)
    if pieces > rows:
        context.progress.line(f"train: {rows} rows hold {pieces} documents, and the state runs on over their ends; "
                              "data.layout=pad keeps one document in a row")


class Export(export.Export):
    """Writes Hierarchos packages."""

    modules = (*export.Export.modules, *GENERAL)

    def run(self, context: Context) -> dict:
        from hierarchos.models.coherent_v9.package import fresh_buffers, load, save

        if not of_run(context):
            return super().run(context)
        source, tokenizer = context.artefacts["acquire"].facts["model"], tokenizer_of(context)
        trained = load(context.run.path / context.artefacts["train"].facts["checkpoint"])
        special = {"bos_token_id": tokenizer.bos_id, "pad_token_id": tokenizer.pad_id}
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


def continued(conversation: Conversation, prompt: str) -> Answer:
    """The text after a prompt that is no turn of a conversation."""
    conversation.session.reset()
    ids = conversation.tokenizer.encode(prompt) or [conversation.tokenizer.eos_id]
    return conversation.answer(conversation.session.feed(ids)[0, -1])


def converse(context: Context) -> Conversation:
    """A conversation with the run's package, as the settings say."""
    return conversation_with(context.config, loaded(context), context.device)


def conversation_with(config: Config, package: Loaded, device) -> Conversation:
    """The same for any package."""
    from hierarchos.data.tokenizer import load_tokenizer
    from hierarchos.generation.coherent.chat import ChatOptions, Conversation
    from hierarchos.generation.coherent.learning import Learner
    from hierarchos.generation.coherent.overlay import Overlay
    from hierarchos.generation.coherent.session import CoherentSession
    from hierarchos.generation.coherent.state_file import weights_digest

    settings, tokenizer = config.coherent, load_tokenizer(package.folder)
    identity = {"weights": weights_digest(package.config, package.values), "tokenizer": tokenizer.fingerprint}
    overlay = Overlay(Path(settings.ltm_overlay_file), package.config, identity["weights"]) if settings.ltm_overlay_file else None
    values = overlay.over(package.values) if overlay else package.values
    session = CoherentSession(package.config, values, device, writes=settings.hebbian_writes,
                              warmup_step=float(package.buffers["memory_gate_warmup_step"]))
    carry = settings.carry_chat_state or settings.chat_state_file is not None
    options = ChatOptions(settings.prompt_form, carry, settings.system, config.generate.max_new_tokens, config.run.seed)

    def teacher() -> Feedback:
        from hierarchos.generation.coherent.feedback import Feedback

        return Feedback(package.config, values, device)
    learner = Learner(session, teacher, settings.ltm_writes, overlay)
    return Conversation(session, tokenizer, sampling_of(config), options, identity, learner=learner)


def open_chat(config: Config) -> tuple[Conversation, Callable[[], None]]:
    """What `hierarchos chat` talks with, and what gives the device back; goes on from coherent.chat_state_file where that is there."""
    from hierarchos.models.coherent_v9.package import load
    from pipelines.devices import open_selected

    package = load(acquire.model_folder(config, download=True))
    device = open_selected(config.device)
    try:
        conversation = conversation_with(config, package, device)
        if config.coherent.chat_state_file:
            conversation.state_file = Path(config.coherent.chat_state_file)
            if conversation.state_file.exists():
                conversation.load(conversation.state_file)
    except BaseException:
        device.close()
        raise
    return conversation, device.close


def sampling_of(config: Config) -> Sampling:
    """How tokens are chosen: generate.*, and what only this model has from coherent.*."""
    from hierarchos.generation.coherent.sampling import Sampling

    g, own = config.generate, config.coherent
    temperature = 0.0 if g.do_sample is False else 1.0 if g.temperature is None else g.temperature
    return Sampling(temperature, 40 if g.top_k is None else g.top_k, 0.9 if g.top_p is None else g.top_p,
                    own.repetition_penalty if g.repetition_penalty is None else g.repetition_penalty, own.entropy_stop, own.eos_stop)
