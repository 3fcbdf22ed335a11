"""Every kind of file gives the same rows, compressed or not, with or without a byte order mark."""

import csv
import gzip
import io
import json
import subprocess
import sys

import pytest

from hierarchos.data.formats import choose_format, read_examples
from hierarchos.data.options import ReadOptions, RowOptions
from hierarchos.data.rows import Row, RowReport
from hierarchos.data.sources import read_rows
from hierarchos.errors import UserError

ROWS = [{"prompt": "Grüße 🙂", "completion": "a\nb"}, {"prompt": 'say "x", y', "completion": "\u2028z"}]


def content_of(kind):
    """ROWS as bytes of a file."""
    if kind in ("jsonl", "ndjson"):
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS).encode()
    if kind == "json":
        return json.dumps(ROWS, indent=2).encode()
    if kind == "parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        sink = io.BytesIO()
        parquet.write_table(pyarrow.Table.from_pylist(ROWS), sink)
        return sink.getvalue()
    text = io.StringIO()
    writer = csv.DictWriter(text, ["prompt", "completion"], delimiter="\t" if kind == "tsv" else ",")
    writer.writeheader()
    writer.writerows(ROWS)
    return text.getvalue().encode()


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("kind", ["jsonl", "ndjson", "json", "csv", "tsv", "parquet"])
def test_every_format_gives_the_same_rows(tmp_path, kind, compressed):
    content = content_of(kind)
    path = tmp_path / (f"rows.{kind}.gz" if compressed else f"rows.{kind}")
    path.write_bytes(gzip.compress(content) if compressed else content)
    report = RowReport()
    assert [row.fields for row in read_rows(path, ReadOptions(), report)] == ROWS
    assert report.rows == 2


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path, kind):
    (tmp_path / f"rows.{kind}").write_bytes(b"\xef\xbb\xbf" + content_of(kind))
    assert [row.fields for row in read_rows(tmp_path / f"rows.{kind}", ReadOptions(), RowReport())] == ROWS


def test_rows_know_their_line(tmp_path):
    (tmp_path / "rows.json").write_text('[\n{"text": "a"},\n\n{"text":\n"b"}, {"text": "c"}]')
    (tmp_path / "rows.csv").write_text('text\n"a\nb"\nc\n')
    numbers = {name: [row.number for row in read_rows(tmp_path / name, ReadOptions(), RowReport())] for name in ("rows.json", "rows.csv")}
    assert numbers == {"rows.json": [2, 4, 5], "rows.csv": [2, 4]}


TEXT = "one\ntwo\r\n\n\nthree\n"


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ("file", [(1, "one\ntwo\n\n\nthree\n")]),
        ("paragraphs", [(1, "one\ntwo"), (5, "three")]),
        ("lines", [(1, "one"), (2, "two"), (5, "three")]),
    ],
)
def test_text_is_split_as_asked(tmp_path, documents, expected):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    rows = read_rows(tmp_path / "a.txt", ReadOptions(documents=documents), RowReport())
    assert [(row.number, row.fields["text"]) for row in rows] == expected


def test_an_unknown_way_to_split_text_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    with pytest.raises(UserError, match="did you mean  lines"):
        list(read_rows(tmp_path / "a.txt", ReadOptions(documents="line"), RowReport()))


def test_globs_folders_and_lists_are_read_in_sorted_order_once(tmp_path):
    for name in ("b.jsonl", "a.jsonl", "c.txt"):
        (tmp_path / name).write_text(json.dumps({"text": name}) + "\n" if name != "c.txt" else "c.txt")

    def texts(paths):
        return [row.fields["text"] for row in read_rows(paths, ReadOptions(), RowReport())]

    assert texts(str(tmp_path / "*.jsonl")) == ["a.jsonl", "b.jsonl"]
    assert texts(tmp_path) == ["a.jsonl", "b.jsonl", "c.txt"]
    assert texts([tmp_path / "b.jsonl", str(tmp_path / "*.jsonl")]) == ["b.jsonl", "a.jsonl"]


def test_max_rows_stops_early_and_says_so(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n' * 5)
    report = RowReport()
    assert len(list(read_rows(tmp_path / "rows.jsonl", ReadOptions(max_rows=2), report))) == 2
    assert report.notices == ["stopped after data.max_rows=2"]


def test_files_are_utf8_whatever_the_locale(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(content_of("jsonl"))
    code = (
        "import sys; from hierarchos.data.sources import read_rows; from hierarchos.data.options import ReadOptions;"
        "from hierarchos.data.rows import RowReport;"
        "print(ascii([r.fields['prompt'] for r in read_rows(sys.argv[1], ReadOptions(), RowReport())]))"
    )
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", code, str(tmp_path / "rows.jsonl")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ascii([row["prompt"] for row in ROWS])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"content": "a"}, "text"),
        ({"text": "a", "id": 1}, "text"),
        ({"prompt": "a", "completion": "b"}, "prompt_completion"),
        ({"instruction": "a", "output": "b"}, "instruction"),
        ({"question": "a", "answer": "b"}, "question_answer"),
        ({"conversations": []}, "messages"),
        ({"input_ids": [], "labels": []}, "input_ids"),
    ],
)
def test_the_row_format_follows_from_the_columns(fields, expected):
    assert choose_format(Row("x", 1, fields), RowOptions()) == expected


def test_columns_of_two_formats_are_told_once():
    report = RowReport()
    assert choose_format(Row("x", 1, {"text": "a", "instruction": "b", "output": "c"}), RowOptions(), report) == "instruction"
    assert report.notices == ["rows read as instruction; the columns also fit text (data.rows=... chooses)"]


def test_prompts_are_written_by_the_template_and_own_columns():
    def pairs(fields, **options):
        return [example.pair for example in read_examples([Row("x", 1, fields)], RowOptions(**options), RowReport())]

    assert pairs({"question": "2+2?", "answer": "4"}) == [("Question: 2+2?\nAnswer: ", "4")]
    assert pairs({"instruction": "Add", "input": "1 2", "output": "3"}) == [("Instruction: Add\nInput: 1 2\nResponse: ", "3")]
    assert pairs({"instruction": "Add", "input": None, "output": "3"}) == [("Instruction: Add\nResponse: ", "3")]
    assert pairs({"q": "a", "a": "b"}, columns={"prompt": "q", "completion": "a"}) == [("a", "b")]
    assert pairs({"question": "a", "answer": "b"}, prompt_template="{prompt}>") == [("a>", "b")]
