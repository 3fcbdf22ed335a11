"""Which model is trained or run."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.config.setting import setting


@dataclass(frozen=True)
class ModelConfig:
    """Where the model comes from; `hierarchos architectures` lists the families."""

    source: str = setting("fresh", choices=("fresh", "local", "hub"))
    """fresh: new random weights from `config`; local: a package folder; hub: a repository of huggingface.co."""

    config: dict[str, Any] = setting({})
    """Fields of the package's config.json. fresh: all of them (vocab_size comes from the tokenizer); otherwise: changes to it."""

    path: str | None = setting(None, path=True)
    """Folder of a Hugging Face package (config.json, tokenizer.json, *.safetensors), or a GGUF file; source=local."""

    repo: str | None = setting(None)
    """Repository on the Hub, "owner/name"; source=hub."""

    revision: str | None = setting(None)
    """Branch, tag or commit of `repo`; the commit that was used is kept in run.json."""
