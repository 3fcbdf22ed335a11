"""The reader of JSON arrays, which keeps the line of every row; and the names of JSON kinds for messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from hierarchos.data.files import decode, read_all
from hierarchos.data.options import ReadOptions
from hierarchos.data.rows import BadRow, Row, RowReport
from hierarchos.errors import UserError


def kind_of(value: object) -> str:
    """The JSON kind of a value, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"a boolean ({str(value).lower()})"
    if isinstance(value, (int, float)):
        return f"a number ({value})"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, (list, tuple)) else "an object"


def object_row(value: object, path: Path, number: int) -> Row:
    if not isinstance(value, dict):
        raise BadRow("not an object", f"a row must be a JSON object, this is {kind_of(value)}")
    return Row(str(path), number, value)


def read_json(path: Path, options: ReadOptions, report: RowReport) -> Iterator[Row]:
    """Parses an array item by item, so that every row knows its line."""
    text = _decode_all(path)
    position = _skip_space(text, 0)
    if position == len(text):
        return
    if text[position] != "[":
        raise _not_an_array(text, position, path)
    decoder, line, counted = json.JSONDecoder(), 1, 0
    position = _skip_space(text, position + 1)
    while text[position : position + 1] != "]":
        line, counted = line + text.count("\n", counted, position), position
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise _broken_array(text, error.pos, error.msg, path) from None
        try:
            yield object_row(value, path, line)
        except BadRow as error:
            report.reject(f"{path}:{line}", error)
        position = _after_item(text, position, path)


def _after_item(text: str, position: int, path: Path) -> int:
    position = _skip_space(text, position)
    if text[position : position + 1] == ",":
        return _skip_space(text, position + 1)
    if text[position : position + 1] != "]":
        raise _broken_array(text, position, "expecting ',' or ']'", path)
    return position


def _broken_array(text: str, position: int, message: str, path: Path) -> UserError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    cut = _skip_space(text, position) >= len(text) or message.startswith("Unterminated")
    fault = f"not JSON at column {column}: {message[0].lower()}{message[1:]}"
    what = f"the JSON array is cut off after {len(text)} characters" if cut else fault
    return UserError(what, where=f"{path}:{line}")


def _not_an_array(text: str, position: int, path: Path) -> UserError:
    try:
        value, end = json.JSONDecoder().raw_decode(text, position)
    except json.JSONDecodeError as error:
        return _broken_array(text, error.pos, error.msg, path)
    if isinstance(value, dict) and _skip_space(text, end) < len(text):
        return UserError("one JSON object after another, not an array", where=str(path), command="data.format=jsonl")
    keys = f" with the keys {', '.join(list(value)[:6])}" if isinstance(value, dict) else ""
    hint = "an array of row objects is expected: [{...}, {...}]"
    return UserError(f"the top level is {kind_of(value)}{keys}", where=f"{path}:1", hint=hint)


def _decode_all(path: Path) -> str:
    """The file as text; the message for wrong bytes has the line that they are in."""
    raw = read_all(path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = raw.rfind(b"\n", 0, error.start) + 1
        return decode(raw[start:], path, raw.count(b"\n", 0, start) + 1, start)


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position
