"""Readers: files of text, JSON lines, JSON arrays, CSV and Parquet as rows that know their place."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from hierarchos.data.files import FORMATS, find_files, format_of, read_all, read_lines, suffix_of
from hierarchos.data.json_arrays import object_row, read_json
from hierarchos.data.options import ReadOptions
from hierarchos.data.rows import BadRow, Row, RowReport
from hierarchos.errors import UserError, nearest

CSV_FIELD_LIMIT = 2**31 - 1  # the largest that every platform's C long takes


def read_rows(paths: str | Path | list, options: ReadOptions, report: RowReport) -> Iterator[Row]:
    """Yields the rows of all files in order. Bad rows go to `report`; files that cannot be read raise `UserError`."""
    left = options.max_rows if options.max_rows is not None else float("inf")
    files = find_files(paths)
    for path in files:
        kind = format_of(path, options.format)
        count = 0
        for row in _READ[kind](path, options, report):
            if report.rows >= left:
                report.notice(f"stopped after data.max_rows={options.max_rows}")
                return
            count += 1
            report.rows += 1
            yield row
        if count == 0 and not report.bad:
            _without_rows(path, len(files), report)


def _without_rows(path: Path, files: int, report: RowReport) -> None:
    """An empty file among others can be left out by policy; an only one leaves nothing."""
    what = "the file is empty" if path.stat().st_size == 0 else "the file holds no rows"
    if files == 1:
        raise UserError(what, where=str(path))
    report.reject(str(path), BadRow("empty file", what))


def _read_text(path: Path, options: ReadOptions, report: RowReport) -> Iterator[Row]:
    split = {"file": _whole_file, "paragraphs": _paragraphs, "lines": _each_line}
    if options.documents not in split:
        close = nearest(options.documents, split)
        raise UserError(f"data.documents={options.documents} is not a way to split text", nearest=close, hint=f"ways: {', '.join(split)}")
    for number, text in split[options.documents](path):
        yield Row(str(path), number, {"text": text})


def _whole_file(path: Path) -> Iterator[tuple[int, str]]:
    text = "".join(line for _, line in read_lines(path)).replace("\r\n", "\n")
    if text.strip():
        yield 1, text


def _paragraphs(path: Path) -> Iterator[tuple[int, str]]:
    start, block = 1, []
    for number, line in read_lines(path):
        if line.strip():
            start = start if block else number
            block.append(line.replace("\r\n", "\n"))
        elif block:
            yield start, "".join(block).rstrip("\n")
            block = []
    if block:
        yield start, "".join(block).rstrip("\n")


def _each_line(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in read_lines(path):
        if line.strip():
            yield number, line.rstrip("\r\n")


def _read_jsonl(path: Path, options: ReadOptions, report: RowReport) -> Iterator[Row]:
    for number, line in read_lines(path):
        if not line.strip():
            report.blank_lines += 1
            continue
        if number == 1 and line.lstrip().startswith("["):
            raise UserError("a JSON array, not one object a line", where=f"{path}:1", command="data.format=json")
        try:
            yield object_row(json.loads(line), path, number)
        except json.JSONDecodeError as error:
            if number == 1 and (named := FORMATS.get(suffix_of(path), "jsonl")) != "jsonl":
                raise UserError(f"not JSON, and the name says {named}", where=f"{path}:1", command=f"data.format={named}") from None
            report.reject(f"{path}:{number}", BadRow("not JSON", _json_problem(error, line)))
        except BadRow as error:
            report.reject(f"{path}:{number}", error)


def _json_problem(error: json.JSONDecodeError, line: str) -> str:
    if error.pos >= len(line.rstrip()) or error.msg.startswith("Unterminated"):
        return f"the JSON object is cut off after {len(line.rstrip())} characters"
    return f"not JSON at column {error.colno}: {error.msg[0].lower()}{error.msg[1:]}"


def _read_csv(path: Path, options: ReadOptions, report: RowReport, delimiter: str = ",") -> Iterator[Row]:
    csv.field_size_limit(CSV_FIELD_LIMIT)
    lines = csv.reader((line for _, line in read_lines(path)), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    start = 1
    while True:
        try:
            values = next(lines, None)
        except csv.Error as error:
            raise _broken_csv(error, path, start, lines.line_num) from None
        if values is None:
            return
        number, start = start, lines.line_num + 1
        if not values:
            report.blank_lines += 1
        elif header is None:
            header = _checked_header(values, path)
        elif len(values) != len(header):
            count = "1 value" if len(values) == 1 else f"{len(values)} values"
            detail = f"{count} for the {len(header)} columns {', '.join(header)}"
            report.reject(f"{path}:{number}", BadRow("unequal columns", detail))
        else:
            yield Row(str(path), number, dict(zip(header, values, strict=True)))


def _read_tsv(path: Path, options: ReadOptions, report: RowReport) -> Iterator[Row]:
    return _read_csv(path, options, report, delimiter="\t")


def _checked_header(names: list[str], path: Path) -> list[str]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"the column {twice[0]} is there twice", where=f"{path}:1")
    return names


def _broken_csv(error: csv.Error, path: Path, start: int, end: int) -> UserError:
    if "unexpected end" in str(error):
        return UserError("a quote that opens here is never closed", where=f"{path}:{start}", hint='a quote inside quotes is written ""')
    return UserError(f"not CSV: {error}", where=f"{path}:{end}", hint='a quote inside quotes is written ""')


def _read_parquet(path: Path, options: ReadOptions, report: RowReport) -> Iterator[Row]:
    import io

    import pyarrow
    import pyarrow.parquet

    from hierarchos.data.files import GZIP_MAGIC

    with open(path, "rb") as file:
        compressed = file.read(2) == GZIP_MAGIC
    number = 0
    try:
        table = pyarrow.parquet.ParquetFile(io.BytesIO(read_all(path)) if compressed else str(path))
        for batch in table.iter_batches(batch_size=1024):
            for fields in batch.to_pylist():
                number += 1
                yield Row(str(path), number, fields, "row")
    except (pyarrow.ArrowInvalid, OSError) as error:
        size = path.stat().st_size
        what = "not a whole Parquet file" if size else "the file is empty"
        raise UserError(what, where=str(path), hint=[f"{size} bytes; {str(error).splitlines()[0][:120]}"]) from None


_READ = {
    "text": _read_text,
    "jsonl": _read_jsonl,
    "json": read_json,
    "csv": _read_csv,
    "tsv": _read_tsv,
    "parquet": _read_parquet,
}
