"""docs/errors.md is what the table says."""
from __future__ import annotations

from tests.bad_input.test_config import ROWS as CONFIG
from validation import errors_table


def test_page_is_up_to_date():
    assert errors_table.PAGE.read_text(encoding="utf-8") == errors_table.page(), "run: python -m validation.errors_table"


def test_no_row_stands_there_twice():
    commands = [(row.words, tuple(row.files.items())) for row in CONFIG]
    assert len(set(commands)) == len(commands)
