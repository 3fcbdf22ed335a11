"""What a person can set about data. Keys in error messages are these fields under `data.` (for batches, under `train.`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ReadOptions:
    """How files become rows."""

    format: str = "auto"
    """Of files: auto (from the ending of the name) | text | jsonl | json | csv | tsv | parquet"""
    documents: str = "file"
    """What one document of a .txt file is: file | paragraphs (blank lines between) | lines"""
    max_rows: int | None = None
    """Reads no more rows than this"""


@dataclass(frozen=True)
class RowOptions:
    """How rows become texts, prompts with completions, conversations or token ids."""

    rows: str = "auto"
    """auto (from the columns) | text | prompt_completion | instruction | question_answer | messages | input_ids"""
    columns: Mapping[str, str | None] = field(default_factory=dict)
    """Own column names for text, prompt, context, completion, messages, input_ids, labels, attention_mask, loss_weights"""
    prompt_template: str | None = None
    """How the prompt of instruction and question_answer rows is written, {prompt} and {context} in it; None: the format's own"""
    prompts: str = "plain"
    """plain: the format's own | hierarchos: as coherent-v9 is taught and talked with, headings for instruction rows, User and Assistant
    lines for other pairs"""
    template: str = "plain"
    """plain: prompt then completion | chat: both as one exchange through the chat template"""
    merge_same_role: bool = False
    """Joins consecutive turns of one role with a blank line instead of refusing them"""
    system: str = "keep"
    """keep | merge_into_user (for templates without system turns) | drop"""


@dataclass(frozen=True)
class EncodeOptions:
    """How text becomes token ids and which of them are trained."""

    train_on_prompt: bool = False
    """Trains prompts and user turns too, instead of using them as context only"""
    on_long_row: str = "split"
    """For documents of more than max_length tokens: split (rows go on where the last ended) | truncate | drop | error"""
    max_length: int | None = None
    """Tokens that fit in a row; None: any number"""
    add_bos: str = "auto"
    """auto (as the tokenizer itself does) | always | never; never twice, whatever the chat template writes"""
    prompt_loss_weight: float = 1.0
    """How much a trained prompt's tokens count in prompt_completion, instruction and question_answer rows"""
    response_loss_weight: float = 1.0
    """How much an answer's tokens count there"""
    response_boundary_tokens: int = 0
    """So many first tokens of an answer count ..."""
    response_boundary_loss_weight: float = 1.0
    """... this many times as much"""
    min_response_tokens: int = 0
    """With on_long_row=truncate: tokens of the answer that stay, the prompt loses its beginning instead; 0: rows are cut at their end"""
    chat_template: str | None = None
    """Jinja text; None: the tokenizer's own, or ChatML when the tokenizer has its tokens"""


@dataclass(frozen=True)
class BatchOptions:
    """How documents become rows of a batch."""

    batch_size: int = 8
    """Rows in a batch"""
    sequence_length: int = 128
    """Tokens in a row"""
    layout: str = "pack"
    """pack: several documents in a row, attention kept inside each | pad: one document in a row"""
    pad_to: str = "row"
    """row: sequence_length | longest: the longest row of the batch, rounded up to pad_multiple (only with layout=pad)"""
    pad_multiple: int = 32
    """Batch lengths are multiples of this, so that few shapes are compiled"""
    shuffle: bool = True
    """A new order every epoch, from the seed"""
    seed: int = 0
    """Of the order of rows"""
