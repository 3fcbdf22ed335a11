"""The exact message for each kind of wrong data file: what, where, and what to type."""
# ruff: noqa: E501 (tables of messages, one case a line)

import gzip
import json

import pytest

from hierarchos.data.formats import read_examples
from hierarchos.data.options import ReadOptions, RowOptions
from hierarchos.data.rows import RowReport
from hierarchos.data.sources import read_rows
from hierarchos.errors import UserError

SKIP = "try data.on_bad_row=skip to leave such rows out and count them"


def read(path, on_bad_row="error", read_options=None, **row_options):
    """All examples of a file, and the report."""
    report = RowReport(on_bad_row)
    examples = list(read_examples(read_rows(path, read_options or ReadOptions(), report), RowOptions(**row_options), report))
    report.finish()
    return examples, report


@pytest.fixture
def message(tmp_path, monkeypatch):
    """Writes a file, reads it with the given options and returns the lines of the refusal."""
    monkeypatch.chdir(tmp_path)

    def refuse(name, content, **options):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError) as caught:
            read(name, **options)
        return squeezed(caught.value)

    return refuse


def squeezed(error):
    """Lines of a message with single spaces: the layout is tested in test_errors."""
    return [" ".join(line.split()) for line in str(error).splitlines()]


GOOD = '{"instruction": "a", "output": "b"}\n'

ONE_BAD_ROW = [
    ("number in a text column", GOOD * 20 + '{"instruction": 5, "output": "x"}\n', "rows.jsonl:21", '"instruction" is a number (5), not text'),
    ("null in a text column", GOOD + '{"instruction": "a", "output": null}\n', "rows.jsonl:2", '"output" is null, not text'),
    ("list in a text column", GOOD + '{"instruction": ["a"], "output": "x"}\n', "rows.jsonl:2", '"instruction" is a list, not text'),
    ("object in a text column", GOOD + '{"instruction": {}, "output": "x"}\n', "rows.jsonl:2", '"instruction" is an object, not text'),
    ("boolean in a text column", GOOD + '{"instruction": true, "output": "x"}\n', "rows.jsonl:2", '"instruction" is a boolean (true), not text'),
    ("empty text", GOOD + '{"instruction": "a", "output": " "}\n', "rows.jsonl:2", '"output" is empty'),
    ("column missing in one row", GOOD + '{"instruction": "a"}\n', "rows.jsonl:2", '"output" is missing; this row has instruction'),
    ("truncated JSON", GOOD + '{"instruction": "a", "out', "rows.jsonl:2", "the JSON object is cut off after 25 characters"),
    ("cut before a value", GOOD + '{"instruction":', "rows.jsonl:2", "the JSON object is cut off after 15 characters"),
    ("comma missing", GOOD + '{"instruction": "a" "output": "b"}\n', "rows.jsonl:2", "not JSON at column 21: expecting ',' delimiter"),
    ("a list as a row", GOOD + "[1, 2]\n", "rows.jsonl:2", "a row must be a JSON object, this is a list"),
    ("blank lines count as lines", GOOD + "\n\n" + '{"instruction": 1.5, "output": "x"}\n', "rows.jsonl:4", '"instruction" is a number (1.5), not text'),
]


@pytest.mark.parametrize(("content", "where", "what"), [case[1:] for case in ONE_BAD_ROW], ids=[case[0] for case in ONE_BAD_ROW])
def test_a_bad_row_is_named_by_file_line_and_reason(message, content, where, what):
    lines = message("rows.jsonl", content)
    assert " ".join(lines).split() == f"{what} {where} {SKIP} nothing was started".split()


def test_all_bad_rows_are_told_at_once(message):
    bad = '{"instruction": 5, "output": "x"}\n{"instruction": "a", "output": null}\n\n{"instruction": "a", "out'
    assert message("rows.jsonl", GOOD * 20 + bad) == [
        "3 rows cannot be used",
       'rows.jsonl:21 "instruction" is a number (5), not text',
       'rows.jsonl:22 "output" is null, not text',
       "rows.jsonl:24 the JSON object is cut off after 25 characters",
        SKIP,
        "nothing was started",
    ]


def test_skip_counts_every_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad = '{"instruction": 5, "output": "x"}\n{"instruction": "a", "output": null}\n\n{"instruction": "a", "out'
    (tmp_path / "rows.jsonl").write_text(GOOD * 20 + bad)
    examples, report = read("rows.jsonl", on_bad_row="skip")
    assert len(examples) == 20
    assert report.summary()["bad_rows"] == {"not JSON": 1, "not text": 1, "null": 1}
    assert report.summary()["blank_lines"] == 1
    assert report.lines()[1] == '1 rows left out: not text; first: rows.jsonl:21  "instruction" is a number (5), not text'


def test_reading_stops_when_most_rows_are_bad(message):
    lines = message("rows.jsonl", GOOD + '{"instruction": 5, "output": "x"}\n' * 1000)
    assert lines[0] == "at least 20 rows cannot be used"
    assert "and 15 more" in lines


COLUMNS = [
    (
        "text file read as instructions",
        '{"text": "hello", "meta": 1}\n',
        {"rows": "instruction"},
        [
            "data.rows=instruction needs the columns instruction and output",
            "rows.jsonl:1",
            "columns found: text, meta",
            "this looks like text",
            "try data.rows=text",
        ],
    ),
    (
        "messages declared as instructions",
        '{"messages": []}\n',
        {"rows": "instruction"},
        [
            "data.rows=instruction needs the columns instruction and output",
            "rows.jsonl:1",
            "columns found: messages",
            "this looks like messages",
            "try data.rows=messages",
        ],
    ),
    (
        "unknown columns",
        '{"id": 3, "body": "a longer text"}\n',
        {},
        [
            "the columns fit no row format rows.jsonl:1",
            "columns found: id, body",
            "input_ids: input_ids (labels) (attention_mask) (loss_weights)",
            "messages: messages",
            "prompt_completion: prompt, completion",
            "instruction: instruction, output (input)",
            "question_answer: question, answer",
            "text: text",
            "try data.columns.text=body",
        ],
    ),
    (
        "a column that is nearly there",
        '{"instruction": "a", "outputs": "b"}\n',
        {"rows": "instruction"},
        [
            "data.rows=instruction needs the column output",
            "rows.jsonl:1",
            "columns found: instruction, outputs",
            "try data.columns.completion=outputs",
        ],
    ),
    (
        "a mapped column that is not there",
        '{"body": "a"}\n',
        {"columns": {"text": "bdy"}},
        ["the column bdy is not there rows.jsonl:1", "did you mean data.columns.text=body ?", "columns found: body"],
    ),
    ("an unknown field", '{"body": "a"}\n', {"columns": {"txt": "body"}}, ["data.columns.txt is not a field", "did you mean data.columns.text ?"]),
    ("an unknown row format", '{"text": "a"}\n', {"rows": "instructions"}, ["data.rows=instructions is not a row format", "did you mean instruction ?"]),
    (
        "a field that the template has not",
        '{"question": "a", "answer": "b"}\n',
        {"prompt_template": "Q: {question}"},
        ["data.prompt_template uses {question}"],
    ),
]


@pytest.mark.parametrize(("content", "options", "expected"), [case[1:] for case in COLUMNS], ids=[case[0] for case in COLUMNS])
def test_wrong_columns_are_answered_with_the_override_that_helps(message, content, options, expected):
    assert message("rows.jsonl", content, **options)[: len(expected)] == expected


FILES = [
    (
        "Windows-1252 bytes",
        "rows.txt",
        "fine\nalso fine\ncafé au lait\n".encode("cp1252"),
        [
            "byte 0xe9 at offset 18 is not UTF-8 rows.txt:3",
            "as Windows-1252 it would read: café au lait",
            "files are read as UTF-8 on every system; convert this one:",
            "try iconv -f WINDOWS-1252 -t UTF-8 rows.txt > utf8_rows.txt",
            "nothing was started",
        ],
    ),
    ("Windows-1252 in JSON lines", "rows.jsonl", GOOD.encode() + b'{"instruction": "\x93"}', ["byte 0x93 at offset 53 is not UTF-8 rows.jsonl:2"]),
    ("Windows-1252 in an array", "rows.json", b'[{"text": "a"},\n{"text": "\xe9"}]', ["byte 0xe9 at offset 26 is not UTF-8 rows.json:2"]),
    ("Windows-1252 in CSV", "rows.csv", b"text\na\n\xe9\n", ["byte 0xe9 at offset 7 is not UTF-8 rows.csv:3"]),
    ("UTF-16", "rows.txt", "text".encode("utf-16"), ["the file is UTF-16, not UTF-8 rows.txt:1"]),
    ("an empty text file", "rows.txt", b"", ["the file is empty rows.txt"]),
    ("blank lines only", "rows.jsonl", b"\n\n", ["the file holds no rows rows.jsonl"]),
    ("a CSV header without rows", "rows.csv", b"text\n", ["the file holds no rows rows.csv"]),
    ("an empty array", "rows.json", b"[]", ["the file holds no rows rows.json"]),
    ("CSV with unequal columns", "rows.csv", b"prompt,completion\na,b\nc\n", ["1 values for the 2 columns prompt, completion", "rows.csv:3"]),
    ("CSV with an unquoted comma", "rows.csv", b"prompt,completion\na,b,c\n", ["3 values for the 2 columns prompt, completion", "rows.csv:2"]),
    ("CSV with an open quote", "rows.csv", b'text\na\n"b\nc\n', ["a quote that opens here is never closed rows.csv:3"]),
    ("CSV with a column twice", "rows.csv", b"text,text\na,b\n", ["the column text is there twice rows.csv:1"]),
    ("an array cut off", "rows.json", b'[{"text": "a"},\n{"text": "b', ["the JSON array is cut off after 27 characters rows.json:2"]),
    ("an array without its end", "rows.json", b'[{"text": "a"}', ["the JSON array is cut off after 14 characters rows.json:1"]),
    ("a comma missing in an array", "rows.json", b'[{"text": "a"}\n{"text": "b"}]', ["not JSON at column 1: expecting ',' or ']'", "rows.json:2"]),
    ("an object at the top", "rows.json", b'{"data": [], "version": 1}', ["the top level is an object with the keys data, version", "rows.json:1"]),
    ("JSON lines called .json", "rows.json", GOOD.encode() * 2, ["one JSON object after another, not an array", "rows.json", "try data.format=jsonl"]),
    ("an array called .jsonl", "rows.jsonl", b'[{"text": "a"}]', ["a JSON array, not one object a line", "rows.jsonl:1"]),
    ("an unknown ending", "rows.dat", b"a", ["rows.dat has no known ending rows.dat"]),
    ("not Parquet", "rows.parquet", b"PAR1 but not really", ["not a whole Parquet file rows.parquet"]),
]


@pytest.mark.parametrize(("name", "content", "expected"), [case[1:] for case in FILES], ids=[case[0] for case in FILES])
def test_wrong_files_are_named_with_their_fault(message, name, content, expected):
    assert " ".join(message(name, content)).startswith(" ".join(expected))


def test_a_truncated_gzip_file_says_how_far_it_got(message):
    whole = gzip.compress(b"".join(b'{"text": "row %d"}\n' % i for i in range(2000)))
    lines = message("rows.jsonl.gz", whole[: len(whole) // 2])
    assert lines[0].startswith("the gzip data ends early after ")
    assert lines[1:] == [
        "rows.jsonl.gz",
        "the download or copy was probably cut short; get the file again",
        "check with gzip -t rows.jsonl.gz",
        "nothing was started",
    ]


def test_a_damaged_gzip_file_is_told(message):
    broken = bytearray(gzip.compress(b"some text\n" * 100))
    broken[-6] ^= 0xFF
    assert message("rows.txt.gz", bytes(broken))[0].startswith("the gzip data is damaged after ")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("row.jsonl", ["row.jsonl is not there data.path", "did you mean rows.jsonl ?", ". holds notes.md, rows.jsonl"]),
        ("*.json", ["*.json matches no file data.path", "did you mean rows.jsonl ?", ". holds notes.md, rows.jsonl"]),
        ("deep/er/rows.jsonl", ["deep/er/rows.jsonl is not there data.path", "did you mean rows.jsonl ?"]),
    ],
)
def test_a_path_that_matches_nothing_names_files_near_it(message, tmp_path, path, expected):
    (tmp_path / "rows.jsonl").write_text(GOOD)
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(UserError) as caught:
        read(path)
    assert squeezed(caught.value)[: len(expected)] == expected


def test_a_folder_without_data_files_says_what_was_looked_for(message, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"folder holds no data files[^\n]*\n  looked for \.txt, \.jsonl, \.ndjson"):
        read("folder")


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


TOKENS = [
    ({"input_ids": []}, "input_ids is empty"),
    ({"input_ids": "1 2"}, "input_ids is a text, not a list of numbers"),
    ({"input_ids": [1, -2]}, "input_ids[1] is -2; ids start at 0"),
    ({"input_ids": [1, 2.5]}, "input_ids holds numbers that are not integers"),
    ({"input_ids": [[1], [2]]}, "input_ids must be a flat list of numbers"),
    ({"input_ids": [1, 2], "labels": [1]}, "labels has 1 entries where input_ids has 2"),
    ({"input_ids": [1, 2], "labels": [1, 3]}, "labels[1] is 3 where input_ids has 2; a label is the same id or -100"),
    ({"input_ids": [1, 2, 3], "attention_mask": [1, 0, 1]}, "attention_mask has a hole; only padding at the ends can be masked"),
    ({"input_ids": [1, 2], "loss_weights": [1, -1]}, "loss_weights holds a negative or not finite number"),
]


@pytest.mark.parametrize(("row", "what"), TOKENS, ids=[case[1] for case in TOKENS])
def test_rows_of_token_ids_are_checked(message, row, what):
    assert message("rows.jsonl", json.dumps(row))[0].startswith(what)


CHATS = [
    (
        ["user", "user", "assistant"],
        "turn 2 is user after user; the roles are user,user,assistant",
        ["try data.merge_same_role=true to join them", SKIP],
    ),
    (["assistant", "user"], "turn 1 is assistant first; the roles are assistant,user", [SKIP]),
    (["user", "system", "assistant"], "turn 2 is system after user; the roles are user,system,assistant", [SKIP]),
    (["user"], "there is no assistant turn to train; the roles are user", [SKIP]),
    (["user", "asistant"], "turn 2 has the role 'asistant'; roles: system, developer, user, assistant, tool; did you mean assistant ?", [SKIP]),
]


@pytest.mark.parametrize(("roles", "what", "fixes"), CHATS, ids=[",".join(case[0]) for case in CHATS])
def test_turns_out_of_order_are_named_with_the_fixes(message, roles, what, fixes):
    lines = message("rows.jsonl", json.dumps({"messages": [{"role": role, "content": "x"} for role in roles]}))
    assert lines == [what, "rows.jsonl:1", *fixes, "nothing was started"] or lines[1:] == [*fixes, "nothing was started"]


@pytest.mark.parametrize(
    ("turns", "what"),
    [
        ([], "messages is an empty list, not a list of turns"),
        ("hi", "messages is a text, not a list of turns"),
        (["hi"], "turn 1 is a text, not {role, content}"),
        ([{"role": "user", "content": 5}], "turn 1 (user): content is a number (5), not text"),
        ([{"role": "user", "content": ""}], "turn 1 (user): content is empty"),
    ],
)
def test_turns_that_are_no_turns_are_named(message, turns, what):
    assert message("rows.jsonl", json.dumps({"messages": turns}))[0].startswith(what)
