"""Rows to token files: `train.safetensors`, `validation.safetensors` and the tokenizer beside them."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines import mixture
from pipelines.stages.base import BaseStage
from pipelines.stages.checks import check_path

if TYPE_CHECKING:
    from hierarchos.data.formats import Example
    from hierarchos.data.options import EncodeOptions
    from hierarchos.data.rows import Row, RowReport
    from hierarchos.data.token_file import TokenFile
    from hierarchos.data.tokenizer import TextTokenizer
    from pipelines.config import Config
    from pipelines.config.data import DataConfig
    from pipelines.stage import Context

TRAIN, VALIDATION, TOKENIZER = "train.safetensors", "validation.safetensors", "tokenizer"
NOT_CONTENT = ("mix", "source", "path", "validation_path", "repo", "revision", "subset", "split", "streaming", "layout", "pad_to",
               "pad_multiple", "mask_share", "mask_whole_words")


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
        data |= {"mix": mixture.content_settings(config.data)} if config.data.mix else {}
        data |= prompt_settings(config)
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

        found = context.artefacts["acquire"].facts
        config = with_prompts(context.config, found)
        tokenizer = make_tokenizer(config, found)
        tokenizer.save(context.folder / TOKENIZER)
        train, validation, report, shares = encode_all(config, found, tokenizer)
        train.save(context.folder / TRAIN)
        if validation is not None:
            validation.save(context.folder / VALIDATION)
        for line in report.lines():
            context.progress.line(f"tokenize: {line}")
        entropy = unigram_entropy(validation if validation is not None else train)
        return {"documents": len(train), "tokens": len(train.ids), "vocab_size": tokenizer.size, "unigram_entropy": round(entropy, 4),
                "trained_tokens": train.trained_tokens, "validation_tokens": len(validation.ids) if validation is not None else 0,
                "tokenizer_hash": tokenizer.fingerprint, "rows": report.summary(), **shares}


def encode_all(config: Config, found: dict, tokenizer: TextTokenizer) -> tuple[TokenFile, TokenFile | None, RowReport, dict]:
    """Training and validation tokens, the account of the rows, and what of each source is in a mixture."""
    from hierarchos.data.mixing import join, mix
    from hierarchos.data.rows import RowReport

    data, report = config.data, RowReport(config.data.on_bad_row)
    parts = {name: encode_source(config, one, mixture.found_of(found, name), tokenizer, report.part(name))
             for name, one in mixture.sources(data).items()}
    held = [held_out for _, held_out in parts.values() if held_out is not None]
    validation = join(held) if held else None
    if found["validation_files"]:
        validation = encode_files(config, found["validation_files"], tokenizer)
    if not data.mix:
        return parts[""][0], validation, report, {}
    train, shares = mix({name: train for name, (train, _) in parts.items()}, mixture.weights(data), data.mix_until, config.run.seed)
    for name, share in shares.items():
        report.notice(f"{name}: {share.tokens:,} tokens, {100 * share.tokens / len(train.ids):.1f}% ({share.passes:g} of it)")
    return train, validation, report, {"mix": {name: dataclasses.asdict(share) for name, share in shares.items()}}


def encode_source(config: Config, data: DataConfig, found: Mapping, tokenizer: TextTokenizer,
                  report: RowReport) -> tuple[TokenFile, TokenFile | None]:
    """Tokens of one source, and those that are held out of it where no file is given for that."""
    from hierarchos.data.encode import encode_examples
    from hierarchos.data.splitting import split_validation

    whole = encode_examples(examples(data, found, report, config.run.seed), tokenizer, encode_options(config), report)
    if data.validation_path:
        return whole, None
    return split_validation(whole, data.validation_fraction, config.run.seed, data.validation_by)


def encode_files(config: Config, files: list[str], tokenizer: TextTokenizer) -> TokenFile:
    """Tokens of validation files."""
    from hierarchos.data.encode import encode_examples
    from hierarchos.data.rows import RowReport

    report = RowReport(config.data.on_bad_row)
    data = dataclasses.replace(config.data, shuffle_buffer=0)
    return encode_examples(examples(data, {"files": files}, report, config.run.seed), tokenizer, encode_options(config), report)


def all_examples(config: Config, found: Mapping, report: RowReport) -> Iterator[Example]:
    """Checked rows of all sources, one after the other."""
    for name, one in mixture.sources(config.data).items():
        yield from examples(one, mixture.found_of(found, name), report.part(name), config.run.seed)


def examples(data: DataConfig, found: Mapping, report: RowReport, seed: int) -> Iterator[Example]:
    """Checked rows of the files that `acquire` found, or of the Hub's data set, at the commit that it noted, when there are none."""
    from hierarchos.data.formats import read_examples
    from hierarchos.data.hub import read_hub_rows
    from hierarchos.data.options import ReadOptions, RowOptions
    from hierarchos.data.sources import read_rows

    options = RowOptions(**{field.name: getattr(data, field.name) for field in dataclasses.fields(RowOptions) if field.name != "columns"},
                         columns={name: value for name, value in dataclasses.asdict(data.columns).items() if value is not None})
    reach = data.max_rows + data.shuffle_buffer if data.max_rows is not None else None
    if found["files"]:
        rows = read_rows(found["files"], ReadOptions(data.format, data.documents, reach), report)
    else:
        rows = read_hub_rows(data.repo, report, data.subset, data.split, found["data_commit"], data.streaming, reach)
    return read_examples(drawn(rows, data, report, seed) if data.shuffle_buffer else rows, options, report)


def drawn(rows: Iterator[Row], data: DataConfig, report: RowReport, seed: int) -> Iterator[Row]:
    """Rows through the buffer; of those that were read, data.max_rows."""
    from hierarchos.data.mixing import through_buffer

    yield from islice(through_buffer(rows, data.shuffle_buffer, seed), data.max_rows)
    if data.max_rows is not None and report.rows > data.max_rows:
        report.notice(f"data.max_rows={data.max_rows} of the {report.rows} rows that were read, through data.shuffle_buffer")


def prompt_settings(config: Config, folder: str | None = None) -> dict:
    """How prompts are written, and whether they are trained, as the model's own kind has it where nothing else was said.
    folder: of its package, where it came from the Hub."""
    from pipelines.stages.coherent_package import applies

    data, own = config.data, applies(config, folder)
    return {"prompts": data.prompts if data.prompts != "auto" else "hierarchos" if own else "plain",
            "train_on_prompt": own if data.train_on_prompt is None else data.train_on_prompt}


def with_prompts(config: Config, found: Mapping) -> Config:
    """The configuration with what `prompt_settings` settles; found: facts of `acquire`."""
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **prompt_settings(config, found["model"])))


def encode_options(config: Config) -> EncodeOptions:
    """How text becomes ids."""
    from hierarchos.data.options import EncodeOptions

    data = config.data
    weights = {name: getattr(data, name) for name in ("prompt_loss_weight", "response_loss_weight", "response_boundary_tokens",
                                                      "response_boundary_loss_weight", "min_response_tokens")}
    return EncodeOptions(**weights, train_on_prompt=bool(data.train_on_prompt), on_long_row=data.on_long_row,
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
    rows = all_examples(config, found, RowReport("skip"))        # the encoding pass tells and counts bad rows
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
