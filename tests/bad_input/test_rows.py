"""Rows that cannot be used: the file, the line, the reason, and what to type."""
# ruff: noqa: E501 (messages and rows as they are)
from __future__ import annotations

import gzip
import json

import pytest

from tests.bad_input.table import FAILED_RUN, TINY, Wrong, by_name

GOOD = '{"instruction": "a", "output": "b"}\n'
TOKENIZE = ("pipeline.stages=[acquire,tokenize]", "run.dir=run", "data.validation_fraction=0")


def refused(what: str, name: str, content: str | bytes, message: str, *words: str) -> Wrong:
    """A file that the stage tokenize cannot use."""
    source = ("data=files", f"data.path={name}")
    return Wrong(what, (*TINY, *source, *TOKENIZE, *words), message, {name: content}, left=FAILED_RUN)


def turns(*roles: str) -> str:
    return json.dumps({"messages": [{"role": role, "content": "x"} for role in roles]}) + "\n"


def tokens(**row: object) -> str:
    return json.dumps(row) + "\n"


LONG = json.dumps({"prompt": "word " * 40, "completion": "end"}) + "\n"

ROWS = [
    refused("number in a text column", "rows.jsonl", GOOD * 20 + '{"instruction": 5, "output": "x"}\n', """\
"instruction" is a number (5), not text    rows.jsonl:21
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("null in a text column", "rows.jsonl", GOOD + '{"instruction": "a", "output": null}\n', """\
"output" is null, not text                 rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("list in a text column", "rows.jsonl", GOOD + '{"instruction": ["a"], "output": "x"}\n', """\
"instruction" is a list, not text          rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("object in a text column", "rows.jsonl", GOOD + '{"instruction": {}, "output": "x"}\n', """\
"instruction" is an object, not text       rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("boolean in a text column", "rows.jsonl", GOOD + '{"instruction": true, "output": "x"}\n', """\
"instruction" is a boolean (true), not text
  rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("NaN in a text column", "rows.jsonl", GOOD + '{"instruction": NaN, "output": "x"}\n', """\
"instruction" is a number (nan), not text  rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("empty text", "rows.jsonl", GOOD + '{"instruction": "a", "output": " "}\n', """\
"output" is empty                          rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("half a character", "rows.jsonl", GOOD + '{"instruction": "a\\ud800", "output": "x"}\n', """\
"instruction" has half a character (\\ud800) at position 1
  rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("column missing in one row", "rows.jsonl", GOOD + '{"instruction": "a"}\n', """\
"output" is missing; this row has instruction
  rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("truncated JSON", "rows.jsonl", GOOD + '{"instruction": "a", "out', """\
the JSON object is cut off after 25 characters
  rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("cut before a value", "rows.jsonl", GOOD + '{"instruction":', """\
the JSON object is cut off after 15 characters
  rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("comma missing", "rows.jsonl", GOOD + '{"instruction": "a" "output": "b"}\n', """\
not JSON at column 21: expecting ',' delimiter
  rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("list as a row", "rows.jsonl", GOOD + "[1, 2]\n", """\
a row must be a JSON object, this is a list
  rows.jsonl:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("blank lines count as lines", "rows.jsonl", GOOD + "\n\n" + '{"instruction": 1.5, "output": "x"}\n', """\
"instruction" is a number (1.5), not text  rows.jsonl:4
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("several bad rows at once", "rows.jsonl",
            GOOD * 20 + '{"instruction": 5, "output": "x"}\n{"instruction": "a", "output": null}\n\n{"instruction": "a", "out', """\
3 rows cannot be used
  rows.jsonl:21  "instruction" is a number (5), not text
  rows.jsonl:22  "output" is null, not text
  rows.jsonl:24  the JSON object is cut off after 25 characters
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("most rows bad", "rows.jsonl", GOOD + '{"instruction": 5, "output": "x"}\n' * 1000, """\
at least 20 rows cannot be used
  rows.jsonl:2  "instruction" is a number (5), not text
  rows.jsonl:3  "instruction" is a number (5), not text
  rows.jsonl:4  "instruction" is a number (5), not text
  rows.jsonl:5  "instruction" is a number (5), not text
  rows.jsonl:6  "instruction" is a number (5), not text
  and 15 more
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("bad row in the validation file", "rows.jsonl", GOOD * 20 + '{"instruction": "a"}\n', """\
"output" is missing; this row has instruction
  rows.jsonl:21
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log""", "data.validation_path=rows.jsonl"),
    refused("text read as instructions", "rows.jsonl", '{"text": "hello", "meta": 1}\n', """\
data.rows=instruction needs the columns instruction and output
  rows.jsonl:1
  columns found: text, meta
  this looks like text
  try  data.rows=text
  stopped in tokenize; log: run/stages/tokenize/log""", "data.rows=instruction"),
    refused("messages declared as instructions", "rows.jsonl", '{"messages": []}\n', """\
data.rows=instruction needs the columns instruction and output
  rows.jsonl:1
  columns found: messages
  this looks like messages
  try  data.rows=messages
  stopped in tokenize; log: run/stages/tokenize/log""", "data.rows=instruction"),
    refused("unknown columns", "rows.jsonl", '{"id": 3, "body": "a longer text"}\n', """\
the columns fit no row format              rows.jsonl:1
  columns found: id, body
  input_ids: input_ids (labels) (attention_mask) (loss_weights)
  messages: messages
  prompt_completion: prompt, completion
  instruction: instruction, output (input)
  question_answer: question, answer
  text: text
  try  data.columns.text=body
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("a column that is nearly there", "rows.jsonl", '{"instruction": "a", "outputs": "b"}\n', """\
data.rows=instruction needs the column output
  rows.jsonl:1
  columns found: instruction, outputs
  try  data.columns.completion=outputs
  stopped in tokenize; log: run/stages/tokenize/log""", "data.rows=instruction"),
    refused("a mapped column that is not there", "rows.jsonl", '{"body": "a"}\n', """\
the column bdy is not there                rows.jsonl:1
  did you mean  data.columns.text=body ?
  columns found: body
  stopped in tokenize; log: run/stages/tokenize/log""", "data.columns.text=bdy"),
    refused("a field that the prompt template has not", "rows.jsonl", '{"question": "a", "answer": "b"}\n', """\
data.prompt_template uses {question}
  fields: {prompt}; a literal brace is written twice
  stopped in tokenize; log: run/stages/tokenize/log""", "data.prompt_template=Q: {question}"),
    refused("Windows-1252 bytes", "rows.txt", "fine\nalso fine\ncafé au lait\n".encode("cp1252"), """\
byte 0xe9 at offset 18 is not UTF-8        rows.txt:3
  as Windows-1252 it would read: café au lait
  files are read as UTF-8 on every system; convert this one:
  try  iconv -f WINDOWS-1252 -t UTF-8 rows.txt > utf8_rows.txt
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("Windows-1252 in JSON lines", "rows.jsonl", GOOD.encode() + b'{"instruction": "\x93"}', """\
byte 0x93 at offset 53 is not UTF-8        rows.jsonl:2
  as Windows-1252 it would read: uction": "“"}
  files are read as UTF-8 on every system; convert this one:
  try  iconv -f WINDOWS-1252 -t UTF-8 rows.jsonl > utf8_rows.jsonl
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("Windows-1252 in a JSON array", "rows.json", b'[{"text": "a"},\n{"text": "\xe9"}]', """\
byte 0xe9 at offset 26 is not UTF-8        rows.json:2
  as Windows-1252 it would read: {"text": "é"}]
  files are read as UTF-8 on every system; convert this one:
  try  iconv -f WINDOWS-1252 -t UTF-8 rows.json > utf8_rows.json
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("Windows-1252 in CSV", "rows.csv", b"text\na\n\xe9\n", """\
byte 0xe9 at offset 7 is not UTF-8         rows.csv:3
  as Windows-1252 it would read: é
  files are read as UTF-8 on every system; convert this one:
  try  iconv -f WINDOWS-1252 -t UTF-8 rows.csv > utf8_rows.csv
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("UTF-16", "rows.txt", "text".encode("utf-16"), """\
the file is UTF-16, not UTF-8              rows.txt:1
  files are read as UTF-8 on every system; convert this one:
  try  iconv -f UTF-16 -t UTF-8 rows.txt > utf8_rows.txt
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("empty file", "rows.txt", b"", """\
the file is empty                          rows.txt
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("blank lines only", "rows.jsonl", b"\n\n", """\
the file holds no rows                     rows.jsonl
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("a byte order mark and nothing else", "rows.txt", b"\xef\xbb\xbf", """\
the file holds no rows                     rows.txt
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("CSV header without rows", "rows.csv", b"text\n", """\
the file holds no rows                     rows.csv
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("empty array", "rows.json", b"[]", """\
the file holds no rows                     rows.json
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("CSV with unequal columns", "rows.csv", b"prompt,completion\na,b\nc\n", """\
1 value for the 2 columns prompt, completion
  rows.csv:3
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("CSV with an unquoted comma", "rows.csv", b"prompt,completion\na,b,c\n", """\
3 values for the 2 columns prompt, completion
  rows.csv:2
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("CSV with an open quote", "rows.csv", b'text\na\n"b\nc\n', """\
a quote that opens here is never closed    rows.csv:3
  a quote inside quotes is written ""
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("CSV with a column twice", "rows.csv", b"text,text\na,b\n", """\
the column text is there twice             rows.csv:1
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("JSON array cut off", "rows.json", b'[{"text": "a"},\n{"text": "b', """\
the JSON array is cut off after 27 characters
  rows.json:2
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("JSON array without its end", "rows.json", b'[{"text": "a"}', """\
the JSON array is cut off after 14 characters
  rows.json:1
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("comma missing in a JSON array", "rows.json", b'[{"text": "a"}\n{"text": "b"}]', """\
not JSON at column 1: expecting ',' or ']'
  rows.json:2
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("object at the top of a .json file", "rows.json", b'{"data": [], "version": 1}', """\
the top level is an object with the keys data, version
  rows.json:1
  an array of row objects is expected: [{...}, {...}]
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("JSON lines called .json", "rows.json", GOOD.encode() * 2, """\
one JSON object after another, not an array
  rows.json
  try  data.format=jsonl
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("JSON array called .jsonl", "rows.jsonl", b'[{"text": "a"}]', """\
a JSON array, not one object a line        rows.jsonl:1
  try  data.format=json
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("a table read as JSON lines", "rows.csv", b"text\na\n", """\
not JSON, and the name says csv            rows.csv:1
  try  data.format=csv
  stopped in tokenize; log: run/stages/tokenize/log""", "data.format=jsonl"),
    refused("unknown ending", "rows.dat", b"a", """\
rows.dat has no known ending               rows.dat
  known: .txt, .jsonl, .ndjson, .json, .csv, .tsv, .parquet, each also with .gz
  try  data.format=jsonl  (or text, json, csv, tsv, parquet)
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("not Parquet", "rows.parquet", b"PAR1 but not really", """\
not a whole Parquet file                   rows.parquet
  19 bytes; Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("gzip cut short", "rows.jsonl.gz", gzip.compress(b'{"text": "row"}\n' * 500, mtime=0)[:40], """\
the gzip data ends early after 0 bytes of content
  rows.jsonl.gz
  the download or copy was probably cut short; get the file again
  check with  gzip -t rows.jsonl.gz
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("everything masked: rows cut before the answer", "rows.jsonl", LONG * 5, """\
0 of 215 tokens are trained                rows.jsonl:1
  5 rows: cut before its first trained token
  this row: 41 tokens before the first trained one, 2 from there; cut after 17
  try  train.sequence_length=42  or  data.on_long_row=split
  stopped in tokenize; log: run/stages/tokenize/log""", "data.on_long_row=truncate"),
    refused("everything masked: rows dropped", "rows.jsonl", LONG * 5, """\
0 of 215 tokens are trained                rows.jsonl:1
  5 rows: longer than train.sequence_length
  this row: 41 tokens before the first trained one, 2 from there
  try  train.sequence_length=42  or  data.on_long_row=split
  stopped in tokenize; log: run/stages/tokenize/log""", "data.on_long_row=drop"),
    refused("long row where that is an error", "rows.jsonl", LONG, """\
a document of 45 tokens where 16 fit       rows.jsonl:1
  try  data.on_long_row=truncate  (or split, drop)
  stopped in tokenize; log: run/stages/tokenize/log""", "data.on_long_row=error"),
    refused("every row skipped", "rows.jsonl", '{"prompt": 5, "completion": "b"}\n' * 3, """\
none of 3 rows can be used
  3 rows: not text
  for example  rows.jsonl:1  "prompt" is a number (5), not text
  stopped in tokenize; log: run/stages/tokenize/log""", "data.on_bad_row=skip"),
    refused("too little to hold out", "rows.jsonl", '{"text": "a"}\n', """\
no document is long enough to hold out its end
  the longest document has 2 tokens; 0.1 of it is less than 2
  try  data.validation_fraction=0
  stopped in tokenize; log: run/stages/tokenize/log""", "data.validation_fraction=0.1"),
    refused("empty list of ids", "rows.jsonl", tokens(input_ids=[]), """\
input_ids is empty                         rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("ids as text", "rows.jsonl", tokens(input_ids="1 2"), """\
input_ids is a text, not a list of numbers
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("negative id", "rows.jsonl", tokens(input_ids=[1, -2]), """\
input_ids[1] is -2; ids start at 0         rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("fraction as an id", "rows.jsonl", tokens(input_ids=[1, 2.5]), """\
input_ids holds numbers that are not integers
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("nested ids", "rows.jsonl", tokens(input_ids=[[1], [2]]), """\
input_ids must be a flat list of numbers   rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("id beyond the vocabulary", "rows.jsonl", tokens(input_ids=[1, 999999]), """\
input_ids holds 999999; the vocabulary ends at 257
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("labels of another length", "rows.jsonl", tokens(input_ids=[1, 2], labels=[1]), """\
labels has 1 entries where input_ids has 2
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("label that is another id", "rows.jsonl", tokens(input_ids=[1, 2], labels=[1, 3]), """\
labels[1] is 3 where input_ids has 2; a label is the same id or -100
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("hole in the attention mask", "rows.jsonl", tokens(input_ids=[1, 2, 3], attention_mask=[1, 0, 1]), """\
attention_mask has a hole; only padding at the ends can be masked
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("negative weight", "rows.jsonl", tokens(input_ids=[1, 2], loss_weights=[1, -1]), """\
loss_weights holds a negative or not finite number
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("two user turns in a row", "rows.jsonl", turns("user", "user", "assistant"), """\
turn 2 is user after user; the roles are user,user,assistant
  rows.jsonl:1
  try  data.merge_same_role=true  to join them
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("assistant first", "rows.jsonl", turns("assistant", "user"), """\
turn 1 is assistant first; the roles are assistant,user
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("system turn in the middle", "rows.jsonl", turns("user", "system", "assistant"), """\
turn 2 is system after user; the roles are user,system,assistant
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("no assistant turn", "rows.jsonl", turns("user"), """\
there is no assistant turn to train; the roles are user
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("misspelled role", "rows.jsonl", turns("user", "asistant"), """\
turn 2 has the role 'asistant'; roles: system, developer, user, assistant, tool; did you mean assistant ?
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("no turns", "rows.jsonl", tokens(messages=[]), """\
messages is an empty list, not a list of turns
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("messages as text", "rows.jsonl", tokens(messages="hi"), """\
messages is a text, not a list of turns    rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("turn as text", "rows.jsonl", tokens(messages=["hi"]), """\
turn 1 is a text, not {role, content}      rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("number in a turn", "rows.jsonl", tokens(messages=[{"role": "user", "content": 5}]), """\
turn 1 (user): content is a number (5), not text
  rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("empty turn", "rows.jsonl", tokens(messages=[{"role": "user", "content": ""}]), """\
turn 1 (user): content is empty            rows.jsonl:1
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log"""),
    refused("chat template that is not Jinja", "rows.jsonl", turns("user", "assistant"), """\
the chat template is not Jinja: Expected an expression, got 'end of statement block'
  tokenizer.chat_template:1
  stopped in tokenize; log: run/stages/tokenize/log""", "tokenizer.chat_template={% for %}"),
    refused("chat template that refuses the system turn", "rows.jsonl", turns("system", "user", "assistant"), """\
the chat template refuses it: System role not supported; the roles are system,user,assistant
  rows.jsonl:1
  try  data.system=merge_into_user  or  data.system=drop
  try  data.on_bad_row=skip  to leave such rows out and count them
  stopped in tokenize; log: run/stages/tokenize/log""",
            "tokenizer.chat_template={% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{{ messages[0].content }}"),
]


@pytest.mark.parametrize(**by_name(ROWS))
def test_rows_that_cannot_be_used(check, row):
    check(row)
