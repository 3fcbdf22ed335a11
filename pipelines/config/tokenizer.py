"""How text becomes token ids."""
from __future__ import annotations

from dataclasses import dataclass

from pipelines.config.setting import setting


@dataclass(frozen=True)
class TokenizerConfig:
    """The tokenizer: the model's own, one from a file, or a new one trained on the rows."""

    source: str = setting("auto", choices=("auto", "train", "model", "file", "hub"))
    """auto: the model package's own, or a new one for a fresh model; train: always a new one; file: `path`; hub: `repo`."""

    path: str | None = setting(None, path=True)
    """A tokenizer.json, or the folder that holds it; source=file."""

    repo: str | None = setting(None)
    """Repository on the Hub with a tokenizer.json, "owner/name"; source=hub."""

    revision: str | None = setting(None)
    """Branch, tag or commit of `repo`; the commit that was used is kept in run.json."""

    vocab_size: int = setting(1024, at_least=257)
    """Entries of a new byte-level BPE tokenizer, special tokens included (256 bytes and the end token at least)."""

    min_frequency: int = setting(2, at_least=1)
    """A pair seen less often than this is not merged."""

    chat_template: str | None = setting(None)
    """Jinja template for `messages` rows, where the package has none: the text itself or a file that holds it."""
