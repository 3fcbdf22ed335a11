"""What is made of a trained or given model: a package, a score, a text."""
from __future__ import annotations

from dataclasses import dataclass

from pipelines.config.setting import setting


@dataclass(frozen=True)
class ExportConfig:
    """The Hugging Face package in the run directory's `model` folder."""

    path: str | None = setting(None, path=True)
    """Also copies the package to this folder, which must not exist yet."""

    max_shard_mb: int = setting(4096, at_least=1)
    """Largest size of one safetensors file, in MiB."""


@dataclass(frozen=True)
class EvaluateConfig:
    """Loss and perplexity on the validation rows."""

    batch_size: int = setting(8, at_least=1)
    """Sequences computed at once."""

    max_batches: int | None = setting(None, at_least=1)
    """Stops after so many batches; null: all rows."""


@dataclass(frozen=True)
class GenerateConfig:
    """Text written by the model. `prompt=TEXT` is short for `generate.prompt=TEXT`."""

    prompt: str | None = setting(None, may_be_empty=True)
    """What the model continues; null: a line of the validation rows."""

    max_new_tokens: int = setting(64, at_least=1)
    """Tokens written at most; an end token stops earlier."""

    temperature: float = setting(0.0, at_least=0)
    """0: always the likeliest token; 1: as the model says; higher: more surprising."""

    top_k: int = setting(0, at_least=0)
    """Draws among so many likeliest tokens; 0: all."""

    top_p: float = setting(1.0, above=0, at_most=1)
    """Draws among the likeliest tokens that together have this probability."""

    chat: bool = setting(False)
    """Sends the prompt as one user message through the package's chat template."""
