"""Which rows are read, and how they become token sequences."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipelines.config.setting import setting


@dataclass(frozen=True)
class ColumnsConfig:
    """Names of the columns in your files, where they differ from the usual ones."""

    text: str | None = setting(None)
    """Plain text: usually `text` or `content`."""

    prompt: str | None = setting(None)
    """What is given: usually `prompt`, `instruction` or `question`."""

    context: str | None = setting(None)
    """What is added to the prompt: usually `input`."""

    completion: str | None = setting(None)
    """What is to be learned: usually `completion`, `output` or `answer`."""

    messages: str | None = setting(None)
    """A list of {role, content}: usually `messages`."""

    input_ids: str | None = setting(None)
    """Token ids made elsewhere, with optional labels, attention_mask and loss_weights beside them."""


@dataclass(frozen=True)
class DataConfig:
    """Training and validation rows."""

    source: str = setting("corpus", choices=("corpus", "files", "hub"))
    """corpus: the public-domain plays that ship with the package; files: `path`; hub: `repo`."""

    path: Any = setting(None, accepts=(str, list), path=True)
    """A file, a glob such as rows/*.jsonl.gz, or a list of them."""

    format: str = setting("auto", choices=("auto", "text", "jsonl", "json", "csv", "parquet"))
    """auto goes by the ending of the name (.txt, .jsonl, .ndjson, .json, .csv, .parquet; .gz after it)."""

    repo: str | None = setting(None)
    """Dataset repository on the Hub, "owner/name"; source=hub."""

    subset: str | None = setting(None)
    """Configuration of the Hub dataset, where it has several."""

    split: str = setting("train")
    """Split of the Hub dataset."""

    revision: str | None = setting(None)
    """Branch, tag or commit of the Hub dataset."""

    columns: ColumnsConfig = field(default_factory=ColumnsConfig)
    """Names of the columns, where they differ from the usual ones."""

    validation_path: Any = setting(None, accepts=(str, list), path=True)
    """Files to validate on; without it `validation_fraction` of the rows is held out."""

    validation_fraction: float = setting(0.05, at_least=0, below=1)
    """Share of rows held out when there is no validation file; 0 holds out none."""

    max_rows: int | None = setting(None, at_least=1)
    """Reads no more rows than this."""

    on_bad_row: str = setting("error", choices=("error", "skip"))
    """error: stop at a row that cannot be used, naming file and line; skip: leave it out and count it by reason."""

    layout: str = setting("pack", choices=("pack", "pad"))
    """pack: several documents in a row, attention kept inside each; pad: one document in a row."""

    on_long_row: str = setting("split", choices=("split", "truncate", "drop", "error"))
    """What happens to a document longer than train.sequence_length; cut rows are counted."""

    train_on_prompt: bool = setting(False)
    """Whether the prompt part of prompt/completion and chat rows is trained too."""
