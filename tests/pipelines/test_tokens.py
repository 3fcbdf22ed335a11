"""`hierarchos tokens`: what training would see, and every row that it would not."""
from __future__ import annotations

import json

ROWS = [{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": answer}]} for answer in ("yo", "", "again")]


def test_rows_that_cannot_be_used_are_listed_with_their_reason(place):
    place.write("chats.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS) + '{"messages": 3}\n')
    ended = place.call("tokens", "data=jsonl", "data.path=chats.jsonl", "--rows", "1", "--ids", "tokenizer.vocab_size=300")
    assert ended.status == 0, ended.err
    assert "[yo(" in ended.out or "[y(" in ended.out                       # trained, with its ids
    assert "1 rows left out: " in ended.out and "first: chats.jsonl:2  " in ended.out and "first: chats.jsonl:4  " in ended.out
    assert "4 rows: 2 used, 2 left out; " in ended.out
