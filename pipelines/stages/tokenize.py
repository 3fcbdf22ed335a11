"""Rows to token files: `train.safetensors`, `validation.safetensors` and the tokenizer beside them."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.stages.base import BaseStage
from pipelines.stages.checks import check_path

if TYPE_CHECKING:
    from hierarchos.data.formats import Example
    from hierarchos.data.options import EncodeOptions
    from hierarchos.data.rows import RowReport
    from hierarchos.data.token_file import TokenFile
    from hierarchos.data.tokenizer import TextTokenizer
    from pipelines.config import Config
    from pipelines.config.data import DataConfig
    from pipelines.stage import Context

TRAIN, VALIDATION, TOKENIZER = "train.safetensors", "validation.safetensors", "tokenizer"
NOT_CONTENT = ("source", "path", "validation_path", "repo", "revision", "subset", "split", "streaming", "layout", "pad_to", "pad_multiple",
               "mask_share", "mask_whole_words")


class Tokenize(BaseStage):
    """Facts: counts of rows, documents and tokens, the vocabulary, what was left out, `unigram_entropy` of the validation tokens."""

    name = "tokenize"
    groups = ("data", "tokenizer")
    inputs = ("acquire",)
    modules = ("hierarchos.data",)
    cached = True

    def settings(self, config: Config) -> dict:
        """What changes the tokens; where rows lie and how rows are laid into batches does not."""
        data = {name: value for name, value in dataclasses.asdict(config.data).items() if name not in NOT_CONTENT}
        places = ("path", "repo", "revision")
        tokenizer = {name: value for name, value in dataclasses.asdict(config.tokenizer).items() if name not in places}
        return {"data": data, "tokenizer": tokenizer, "sequence_length": config.train.sequence_length, "seed": config.run.seed,
                "own_tokenizer": trains_tokenizer(config), "chat_template": template_text(config.tokenizer.chat_template),
                "mask_token": trains_tokenizer(config) and is_encoder(config)}

    def check(self, config: Config) -> None:
        """A chat template that is neither a text nor a file is told before anything starts."""
        template = template_text(config.tokenizer.chat_template)
        if template is not None and "{" not in template:
            where = "tokenizer.chat_template"
            check_path(config.tokenizer.chat_template, where)
            raise UserError(f"{config.tokenizer.chat_template} is no chat template: it uses no message", where=where)

    def run(self, context: Context) -> dict:
        """Reads all rows; raises UserError for rows that cannot be used, by the policy of data.on_bad_row."""
        from hierarchos.data.splitting import unigram_entropy

        config, found = context.config, context.artefacts["acquire"].facts
        tokenizer = make_tokenizer(config, found)
        tokenizer.save(context.folder / TOKENIZER)
        train, validation, report = encode_all(config, found, tokenizer)
        train.save(context.folder / TRAIN)
        if validation is not None:
            validation.save(context.folder / VALIDATION)
        for line in report.lines():
            context.progress.line(f"tokenize: {line}")
        entropy = unigram_entropy(validation if validation is not None else train)
        return {"documents": len(train), "tokens": len(train.ids), "vocab_size": tokenizer.size, "unigram_entropy": round(entropy, 4),
                "trained_tokens": train.trained_tokens, "validation_tokens": len(validation.ids) if validation is not None else 0,
                "tokenizer_hash": tokenizer.fingerprint, "rows": report.summary()}


def encode_all(config: Config, found: dict, tokenizer: TextTokenizer) -> tuple[TokenFile, TokenFile | None, RowReport]:
    """Training and validation tokens, and the account of the rows."""
    from hierarchos.data.encode import encode_examples
    from hierarchos.data.rows import RowReport
    from hierarchos.data.splitting import split_validation

    report, options = RowReport(config.data.on_bad_row), encode_options(config)
    whole = encode_examples(examples(config.data, found, report), tokenizer, options, report)
    if found["validation_files"]:
        other = RowReport(config.data.on_bad_row)
        held_out = encode_examples(examples(config.data, found, other, "validation_files"), tokenizer, options, other)
        return whole, held_out, report
    train, held_out = split_validation(whole, config.data.validation_fraction, config.run.seed, config.data.validation_by)
    return train, held_out, report


def examples(data: DataConfig, found: dict, report: RowReport, which: str = "files") -> Iterator[Example]:
    """Checked rows of the files that `acquire` found, or of the Hub's data set, at the commit that it noted, when there are none."""
    from hierarchos.data.formats import read_examples
    from hierarchos.data.hub import read_hub_rows
    from hierarchos.data.options import ReadOptions, RowOptions
    from hierarchos.data.sources import read_rows

    options = RowOptions(**{field.name: getattr(data, field.name) for field in dataclasses.fields(RowOptions) if field.name != "columns"},
                         columns={name: value for name, value in dataclasses.asdict(data.columns).items() if value is not None})
    if found[which]:
        rows = read_rows(found[which], ReadOptions(data.format, data.documents, data.max_rows), report)
    else:
        rows = read_hub_rows(data.repo, report, data.subset, data.split, found["data_commit"], data.streaming, data.max_rows)
    return read_examples(rows, options, report)


def encode_options(config: Config) -> EncodeOptions:
    """How text becomes ids."""
    from hierarchos.data.options import EncodeOptions

    data = config.data
    weights = {name: getattr(data, name) for name in ("prompt_loss_weight", "response_loss_weight", "response_boundary_tokens",
                                                      "response_boundary_loss_weight", "min_response_tokens")}
    return EncodeOptions(**weights, train_on_prompt=data.train_on_prompt, on_long_row=data.on_long_row,
                         max_length=config.train.sequence_length, add_bos=data.add_bos,
                         chat_template=template_text(config.tokenizer.chat_template))


def template_text(template: str | None) -> str | None:
    """A chat template: the text itself, or the content of the file that it names."""
    if template is not None and "{" not in template and Path(template).is_file():
        return Path(template).read_text(encoding="utf-8")
    return template


def trains_tokenizer(config: Config) -> bool:
    """Whether a new tokenizer is made."""
    return config.tokenizer.source == "train" or (config.tokenizer.source == "auto" and config.model.source == "fresh")


def is_encoder(config: Config) -> bool:
    """Whether a fresh model is one that is trained on hidden tokens: a tokenizer made for it has a token for them."""
    from hierarchos.models.registry import FAMILIES, family

    model_type = config.model.config.get("model_type")
    return config.model.source == "fresh" and model_type in FAMILIES and family(model_type).task == "masked"


def make_tokenizer(config: Config, found: dict) -> TextTokenizer:
    """The package's own, one from a file, or a new one trained on the rows."""
    from hierarchos.data.rows import RowReport
    from hierarchos.data.tokenizer import load_tokenizer
    from hierarchos.data.tokenizer_training import train_tokenizer

    if not trains_tokenizer(config):
        return load_tokenizer(found["tokenizer"] if config.tokenizer.source in ("file", "hub") else found["model"])
    rows = examples(config.data, found, RowReport("skip"))       # the encoding pass tells and counts bad rows
    first = next(rows, None)
    chat = config.data.template == "chat" or (first is not None and first.messages is not None)
    everything = chain(() if first is None else (first,), rows)
    return train_tokenizer(texts(everything), config.tokenizer.vocab_size, min_frequency=config.tokenizer.min_frequency, chat=chat,
                           mask=is_encoder(config))


def texts(rows: Iterator[Example]) -> Iterator[str]:
    """All texts of the rows, long ones in pieces of a paragraph."""
    for example in rows:
        if example.text is not None:
            yield from example.text.split("\n\n")
        elif example.pair is not None:
            yield from example.pair
        elif example.messages is not None:
            yield from (str(message.get("content", "")) for message in example.messages)
