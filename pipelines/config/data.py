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
    """Token ids made elsewhere: usually `input_ids`."""

    labels: str | None = setting(None)
    """Ids to predict beside input_ids, -100 where nothing is trained: usually `labels`."""

    attention_mask: str | None = setting(None)
    """0 for padding beside input_ids: usually `attention_mask`."""

    loss_weights: str | None = setting(None)
    """A weight for each token beside input_ids: usually `loss_weights`."""


@dataclass(frozen=True)
class DataConfig:
    """Training and validation rows."""

    source: str = setting("corpus", choices=("corpus", "files", "hub"))
    """corpus: the public-domain plays that ship with the package; files: `path`; hub: `repo`."""

    path: Any = setting(None, accepts=(str, list), path=True)
    """A file, a glob such as rows/*.jsonl.gz, or a list of them."""

    format: str = setting("auto", choices=("auto", "text", "jsonl", "json", "csv", "tsv", "parquet"))
    """auto goes by the ending of the name (.txt, .jsonl, .ndjson, .json, .csv, .tsv, .parquet; .gz after it)."""

    documents: str = setting("file", choices=("file", "paragraphs", "lines"))
    """What one document of a .txt file is."""

    rows: str = setting("auto", choices=("auto", "text", "prompt_completion", "instruction", "question_answer", "messages", "input_ids"))
    """What the rows hold; auto goes by the names of the columns."""

    repo: str | None = setting(None)
    """Dataset repository on the Hub, "owner/name"; source=hub."""

    subset: str | None = setting(None)
    """Configuration of the Hub dataset, where it has several."""

    split: str = setting("train")
    """Split of the Hub dataset."""

    revision: str | None = setting(None)
    """Branch, tag or commit of the Hub dataset; the commit that was used is kept in run.json."""

    streaming: bool = setting(False)
    """Reads the Hub dataset as it comes, a few rows at a time, instead of downloading it whole; useful with `max_rows`."""

    shuffle_buffer: int = setting(0, at_least=0)
    """So many rows wait in memory and leave in an order that run.seed decides; with `max_rows`, those are drawn from that many more
    rows. 0: the first rows, in their order."""

    mix: dict[str, Any] = setting({})
    """Several sources by name: {plays: {weight: 0.7, source: corpus}, notes: {weight: 0.3, path: notes.jsonl}}. Each may have settings
    of its own, among them `max_rows`; weights are shares of the tokens."""

    mix_until: str = setting("first", choices=("first", "all"))
    """first: ends where one of the sources has nothing left; all: when all of each has been used, shorter ones begin again."""

    columns: ColumnsConfig = field(default_factory=ColumnsConfig)
    """Names of the columns, where they differ from the usual ones."""

    validation_path: Any = setting(None, accepts=(str, list), path=True)
    """Files to validate on; without it `validation_fraction` of the rows is held out."""

    validation_fraction: float = setting(0.05, at_least=0, below=1)
    """Share of rows held out when there is no validation file; 0 holds out none."""

    validation_by: str = setting("auto", choices=("auto", "documents", "ends"))
    """documents: whole documents are held out; ends: the end of each; auto: ends of a few long ones, else documents."""

    max_rows: int | None = setting(None, at_least=1)
    """Reads no more rows than this."""

    on_bad_row: str = setting("error", choices=("error", "skip"))
    """error: stop at a row that cannot be used, naming file and line; skip: leave it out and count it by reason."""

    layout: str = setting("pack", choices=("pack", "pad"))
    """pack: several documents in a row, attention kept inside each; pad: one document in a row."""

    on_long_row: str = setting("split", choices=("split", "truncate", "drop", "error"))
    """What happens to a document longer than train.sequence_length; cut rows are counted."""

    train_on_prompt: bool | None = setting(None)
    """Whether the prompt part of prompt/completion and chat rows is trained too. null: with coherent-v9, as its specification has it."""

    prompt_loss_weight: float = setting(1.0, at_least=0)
    """Where prompts are trained: how much their tokens count."""

    response_loss_weight: float = setting(1.0, above=0)
    """How much the tokens of an answer count."""

    response_boundary_tokens: int = setting(0, at_least=0)
    """So many first tokens of an answer count `response_boundary_loss_weight` times as much."""

    response_boundary_loss_weight: float = setting(1.0, above=0)
    """See `response_boundary_tokens`."""

    min_response_tokens: int = setting(0, at_least=0)
    """on_long_row=truncate: tokens of an answer that stay, the prompt loses its beginning instead; 0: rows are cut at their end."""

    prompt_template: str | None = setting(None)
    """How instruction and question rows are written, with {prompt} and {context} in it; null: the usual form."""

    prompts: str = setting("auto", choices=("auto", "plain", "hierarchos"))
    """How prompts are written where prompt_template is null. plain: the usual form of each row format; hierarchos: headings for instruction
    rows, User and Assistant lines for other pairs, as `chat` writes them; auto: hierarchos for coherent-v9, plain for all others."""

    template: str = setting("plain", choices=("plain", "chat"))
    """plain: prompt, then completion; chat: both as one exchange through the chat template."""

    merge_same_role: bool = setting(False)
    """Joins turns of one role that follow each other, instead of refusing them."""

    system: str = setting("keep", choices=("keep", "merge_into_user", "drop"))
    """What happens to a system turn; some chat templates have none."""

    add_bos: str = setting("auto", choices=("auto", "always", "never"))
    """Whether a document starts with the tokenizer's start token; never twice."""

    pad_to: str = setting("row", choices=("row", "longest"))
    """layout=pad: fill up to train.sequence_length, or to the longest document of the batch."""

    pad_multiple: int = setting(32, at_least=1)
    """Lengths of padded batches are multiples of this, so that few shapes are compiled."""

    mask_share: float = setting(0.15, above=0, at_most=1)
    """Encoders: share of the tokens that are hidden and predicted."""

    mask_whole_words: bool = setting(False)
    """Encoders: all tokens of a word are hidden, or none."""
