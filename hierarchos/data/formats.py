"""Row formats: which columns make which kind of example, found from the columns or stated, and checked row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hierarchos.data.json_arrays import kind_of
from hierarchos.data.options import RowOptions
from hierarchos.data.rows import BadRow, Row, RowReport, whole_text
from hierarchos.errors import UserError, nearest


@dataclass(frozen=True)
class Format:
    """Fields of one row format, each with the column names under which it is usually found."""

    required: Mapping[str, tuple[str, ...]]
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prompt_template: str | None = None


FORMATS = {  # most specific first: the order in which a row with the columns of several formats is read
    "input_ids": Format({"input_ids": ("input_ids",)}, {name: (name,) for name in ("labels", "attention_mask", "loss_weights")}),
    "messages": Format({"messages": ("messages", "conversations")}),
    "prompt_completion": Format({"prompt": ("prompt",), "completion": ("completion", "response")}),
    "instruction": Format(
        {"prompt": ("instruction",), "completion": ("output",)}, {"context": ("input",)}, "Instruction: {prompt}\n{context}Response: "
    ),
    "question_answer": Format({"prompt": ("question",), "completion": ("answer",)}, {}, "Question: {prompt}\nAnswer: "),
    "text": Format({"text": ("text", "content")}),
}


@dataclass(frozen=True)
class Example:
    """A checked row: plain text, a prompt with its completion, a conversation, or token ids. Exactly one is set."""

    row: Row
    text: str | None = None
    pair: tuple[str, str] | None = None
    messages: list[dict[str, str]] | None = None
    tokens: dict[str, list] | None = None


def read_examples(rows: Iterable[Row], options: RowOptions, report: RowReport) -> Iterator[Example]:
    """Checks rows and yields examples; the format is settled by the first row and kept for all."""
    columns: dict[str, str] | None = None
    name = options.rows
    for row in rows:
        if columns is None:
            name = choose_format(row, options, report)
            columns = resolve_columns(name, row.fields, options.columns)
        try:
            yield _MAKE[name](row, columns, options)
        except BadRow as error:
            report.reject(row.where, error)


def choose_format(row: Row, options: RowOptions, report: RowReport | None = None) -> str:
    """The stated format, checked against the row's columns, or the most specific that the columns make."""
    if options.rows not in ("auto", *FORMATS):
        hint = f"row formats: auto, {', '.join(FORMATS)}"
        raise UserError(f"data.rows={options.rows} is not a row format", nearest=nearest(options.rows, FORMATS), hint=hint)
    _check_mapped_columns(row, options)
    fitting = [name for name in FORMATS if resolve_columns(name, row.fields, options.columns) is not None]
    if not fitting or options.rows not in ("auto", *fitting):
        raise _wrong_columns(row, options, fitting)
    if options.rows != "auto":
        return options.rows
    if len(fitting) > 1 and report is not None and not any(options.columns.values()):
        report.notice(f"rows read as {fitting[0]}; the columns also fit {', '.join(fitting[1:])} (data.rows=... chooses)")
    return fitting[0]


def resolve_columns(name: str, fields: Mapping[str, Any], columns: Mapping[str, str | None]) -> dict[str, str] | None:
    """Own column for each field of the format that the row has, or None when a required one is missing."""
    form = FORMATS[name]
    found = {}
    for wanted, usual in {**form.required, **form.optional}.items():
        choices = (columns[wanted],) if columns.get(wanted) else usual
        own = next((choice for choice in choices if choice in fields), None)
        if own is not None:
            found[wanted] = own
        elif wanted in form.required:
            return None
    return found


def _check_mapped_columns(row: Row, options: RowOptions) -> None:
    """Every name under data.columns must be a field of a format, and the column that it names must be there."""
    known = list(dict.fromkeys(name for form in FORMATS.values() for name in (*form.required, *form.optional)))
    for name, own in options.columns.items():
        if name not in known:
            close = nearest(name, known)
            hint = f"fields: {', '.join(known)}"
            raise UserError(f"data.columns.{name} is not a field", nearest=close and f"data.columns.{close}", hint=hint)
        if own and own not in row.fields:
            close = nearest(own, row.fields)
            hint = f"columns found: {', '.join(row.fields)}"
            raise UserError(f"the column {own} is not there", where=row.where, nearest=close and f"data.columns.{name}={close}", hint=hint)


def _wrong_columns(row: Row, options: RowOptions, fitting: list[str]) -> UserError:
    """Lists the columns found, the likely format and the one override that mends it."""
    found = f"columns found: {', '.join(row.fields) or 'none'}"
    if options.rows == "auto":
        hint = [found, *_format_table()]
        return UserError("the columns fit no row format", where=row.where, hint=hint, command=_rename_guess(row, "text"))
    required = FORMATS[options.rows].required
    missing = [usual[0] for name, usual in required.items() if not options.columns.get(name) and not set(usual) & set(row.fields)]
    what = f"data.rows={options.rows} needs the column{'s' if len(missing) > 1 else ''} {' and '.join(missing)}"
    if fitting:
        return UserError(what, where=row.where, hint=[found, f"this looks like {fitting[0]}"], command=f"data.rows={fitting[0]}")
    return UserError(what, where=row.where, hint=found, command=_rename_guess(row, options.rows))


def _format_table() -> list[str]:
    """One line for each format: its usual columns, optional ones in brackets."""
    lines = []
    for name, form in FORMATS.items():
        needed = ", ".join(usual[0] for usual in form.required.values())
        lines.append(f"{name}: {needed}" + "".join(f" ({usual[0]})" for usual in form.optional.values()))
    return lines


def _rename_guess(row: Row, name: str) -> str:
    """`data.columns.` overrides that point the missing fields at the likeliest columns: close names, then long texts."""
    texts = [column for column, value in row.fields.items() if isinstance(value, str)] or list(row.fields) or ["COLUMN"]
    parts = []
    for wanted, usual in FORMATS[name].required.items():
        if not set(usual) & set(row.fields):
            own = nearest(usual[0], texts, cutoff=0.5) or max(texts, key=lambda column: len(str(row.fields.get(column, ""))))
            parts.append(f"data.columns.{wanted}={own}")
            texts = [column for column in texts if column != own] or texts
    return " ".join(parts)


def text_of(row: Row, column: str, optional: bool = False) -> str:
    """The text of a column. Missing, null, numbers, lists and blank text raise `BadRow`, except blank where optional."""
    if column not in row.fields:
        if optional:
            return ""
        raise BadRow("missing column", f'"{column}" is missing; this row has {", ".join(row.fields) or "no columns"}')
    value = row.fields[column]
    if value is None and not optional:
        raise BadRow("null", f'"{column}" is null, not text')
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRow("not text", f'"{column}" is {kind_of(value)}, not text')
    if not value.strip() and not optional:
        raise BadRow("empty text", f'"{column}" is empty')
    return whole_text(value, f'"{column}"')


def _text_example(row: Row, columns: dict, options: RowOptions) -> Example:
    return Example(row, text=text_of(row, columns["text"]))


def _pair_example(row: Row, columns: dict, options: RowOptions) -> Example:
    prompt, completion = text_of(row, columns["prompt"]), text_of(row, columns["completion"])
    if options.template != "chat" and options.prompts == "hierarchos":
        prompt = _user_lines(row, prompt, options)
    return _exchange(row, prompt, completion, options)


def _instruction_example(row: Row, columns: dict, options: RowOptions) -> Example:
    prompt, completion = text_of(row, columns["prompt"]), text_of(row, columns["completion"])
    context = text_of(row, columns["context"], optional=True) if "context" in columns else ""
    if options.template == "chat":
        prompt = f"{prompt}\n\n{context}" if context else prompt
    elif options.prompt_template is None and options.prompts == "hierarchos":
        prompt = alpaca(prompt, context)
    elif options.prompt_template is None:
        prompt = FORMATS["instruction"].prompt_template.format(prompt=prompt, context=f"Input: {context}\n" if context else "")
    else:
        prompt = fill(options.prompt_template, prompt=prompt, context=context)
    return _exchange(row, prompt, completion, options)


def _question_example(row: Row, columns: dict, options: RowOptions) -> Example:
    prompt, completion = text_of(row, columns["prompt"]), text_of(row, columns["completion"])
    if options.template != "chat" and options.prompts == "hierarchos" and options.prompt_template is None:
        prompt = _user_lines(row, prompt, options)
    elif options.template != "chat":
        prompt = fill(options.prompt_template or FORMATS["question_answer"].prompt_template, prompt=prompt)
    return _exchange(row, prompt, completion, options)


def _exchange(row: Row, prompt: str, completion: str, options: RowOptions) -> Example:
    if options.template == "chat":
        return Example(row, messages=[{"role": "user", "content": prompt}, {"role": "assistant", "content": completion}])
    return Example(row, pair=(prompt, completion))


def _user_lines(row: Row, prompt: str, options: RowOptions) -> str:
    column = options.columns.get("context") or "input"
    return user_lines(prompt, text_of(row, column, optional=True))


def alpaca(prompt: str, context: str = "") -> str:
    """An instruction under headings."""
    return f"### Instruction:\n{prompt}\n\n" + (f"### Input:\n{context}\n\n" if context else "") + "### Response:\n"


def user_lines(prompt: str, context: str = "") -> str:
    """A question as a turn of a conversation."""
    return (f"User: {context}\n\n" if context else "") + f"User: {prompt}\n\nAssistant: "


def fill(template: str, **fields: str) -> str:
    """Writes a prompt template; a field that the format has not is an error that names those it has."""
    try:
        return template.format(**fields)
    except (KeyError, IndexError, ValueError) as error:
        name = str(error).strip("'")
        hint = f"fields: {', '.join('{' + field + '}' for field in fields)}; a literal brace is written twice"
        raise UserError(f"data.prompt_template uses {{{name}}}", nearest=nearest(name, fields), hint=hint) from None


def _messages_example(row: Row, columns: dict, options: RowOptions) -> Example:
    from hierarchos.data.chat import checked_messages

    if columns["messages"] not in row.fields:
        raise BadRow("missing column", f'"{columns["messages"]}" is missing; this row has {", ".join(row.fields) or "no columns"}')
    return Example(row, messages=checked_messages(row.fields[columns["messages"]], options))


def _tokens_example(row: Row, columns: dict, options: RowOptions) -> Example:
    from hierarchos.data.tokens import checked_tokens

    return Example(row, tokens=checked_tokens({field: row.fields.get(own) for field, own in columns.items()}))


_MAKE = {
    "input_ids": _tokens_example,
    "messages": _messages_example,
    "prompt_completion": _pair_example,
    "instruction": _instruction_example,
    "question_answer": _question_example,
    "text": _text_example,
}
