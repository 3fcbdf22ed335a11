"""Conversations and texts with coherent-v9, as the settings say."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.stages.coherent_package import loaded, with_changes

if TYPE_CHECKING:
    from hierarchos.generation.coherent.chat import Answer, Conversation
    from hierarchos.generation.coherent.feedback import Feedback
    from hierarchos.generation.coherent.sampling import Sampling
    from hierarchos.models.coherent_v9.package import Loaded
    from pipelines.config import Config
    from pipelines.stage import Context


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
    from hierarchos.models.coherent_v9.memory import FastMemory

    settings, tokenizer = config.coherent, load_tokenizer(package.folder)
    identity = {"weights": weights_digest(package.config, package.values), "tokenizer": tokenizer.fingerprint}
    overlay = Overlay(Path(settings.ltm_overlay_file), package.config, identity["weights"]) if settings.ltm_overlay_file else None
    values = overlay.over(package.values) if overlay else package.values
    session = CoherentSession(package.config, values, device, writes=settings.hebbian_writes,
                              warmup_step=float(package.buffers["memory_gate_warmup_step"]),
                              memory=FastMemory.of_package(package.config, package.buffers))
    carry = settings.carry_chat_state or settings.chat_state_file is not None
    options = ChatOptions(settings.prompt_form, carry, settings.system, config.generate.max_new_tokens, config.run.seed)

    def teacher() -> Feedback:
        from hierarchos.generation.coherent.feedback import Feedback

        return Feedback(package.config, values, device)
    learner = Learner(session, teacher, settings.ltm_writes, overlay)
    return Conversation(session, tokenizer, sampling_of(config), options, identity, learner=learner)


def open_chat(config: Config, folder: Path) -> tuple[Conversation, Callable[[], None]]:
    """A conversation with the package at `folder`, and what closes its device; goes on from coherent.chat_state_file."""
    from hierarchos.models.coherent_v9.package import load
    from pipelines.devices import open_selected

    package = with_changes(load(folder), config)
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
