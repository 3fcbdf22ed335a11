"""Bad rows and files at the reader's level; what a person is told about each kind is in tests/bad_input/test_rows.py."""

import gzip

import pytest

from hierarchos.data.formats import read_examples
from hierarchos.data.options import ReadOptions, RowOptions
from hierarchos.data.rows import RowReport
from hierarchos.data.sources import read_rows
from hierarchos.errors import UserError

GOOD = '{"instruction": "a", "output": "b"}\n'


def read(path, on_bad_row="error", read_options=None, **row_options):
    """All examples of a file, and the report."""
    report = RowReport(on_bad_row)
    examples = list(read_examples(read_rows(path, read_options or ReadOptions(), report), RowOptions(**row_options), report))
    report.finish()
    return examples, report


def squeezed(error):
    """Lines of a message with single spaces: the layout is tested in test_errors."""
    return [" ".join(line.split()) for line in str(error).splitlines()]


def test_skip_counts_every_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad = '{"instruction": 5, "output": "x"}\n{"instruction": "a", "output": null}\n\n{"instruction": "a", "out'
    (tmp_path / "rows.jsonl").write_text(GOOD * 20 + bad)
    examples, report = read("rows.jsonl", on_bad_row="skip")
    assert len(examples) == 20
    assert report.summary()["bad_rows"] == {"not JSON": 1, "not text": 1, "null": 1}
    assert report.summary()["blank_lines"] == 1
    assert report.lines()[1] == '1 rows left out: not text; first: rows.jsonl:21  "instruction" is a number (5), not text'


def test_a_damaged_gzip_file_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    broken = bytearray(gzip.compress(b"some text\n" * 100))
    broken[-6] ^= 0xFF
    (tmp_path / "rows.txt.gz").write_bytes(broken)
    with pytest.raises(UserError, match="the gzip data is damaged after "):
        read("rows.txt.gz")


def test_an_empty_file_among_others_can_be_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text("")
    (tmp_path / "b.jsonl").write_text(GOOD)
    report = RowReport("skip")
    assert len(list(read_examples(read_rows(["a.jsonl", "b.jsonl"], ReadOptions(), report), RowOptions(), report))) == 1
    assert report.summary()["bad_rows"] == {"empty file": 1}


def test_a_parquet_file_without_the_column_lists_its_columns(tmp_path, monkeypatch):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    parquet.write_table(pyarrow.table({"body": ["a"], "n": [1]}), "rows.parquet")
    with pytest.raises(UserError) as caught:
        read("rows.parquet", rows="text")
    assert squeezed(caught.value) == [
        "data.rows=text needs the column text rows.parquet row 1",
        "columns found: body, n",
        "try data.columns.text=body",
        "nothing was started",
    ]
