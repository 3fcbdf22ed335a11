"""A row with its place, and the account of rows that could not be used."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from hierarchos.errors import UserError

SHOWN = 5  # bad rows listed in one message
COUNTS = ("rows", "used", "blank_lines", "truncated_rows", "truncated_tokens")
GATHERED = 20  # bad rows after which reading stops


class Row(NamedTuple):
    """Column values and where they were: `number` is a line, or a row of files that have no lines."""

    file: str
    number: int
    fields: dict[str, Any]
    unit: str = "line"

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}" if self.unit == "line" else f"{self.file} {self.unit} {self.number}"


class BadRow(Exception):
    """Says why one row cannot be used. `reason` is counted; `detail` is shown; `fixes` are overrides that help."""

    def __init__(self, reason: str, detail: str, fixes: tuple[str, ...] = ()):
        super().__init__(detail)
        self.reason, self.detail, self.fixes = reason, detail, fixes


def whole_text(text: str, what: str) -> str:
    """The text, unless JSON escapes have put half a character (a lone surrogate) into it, which no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"\\u{ord(text[error.start]):04x}"
        raise BadRow("half a character", f"{what} has half a character ({half}) at position {error.start}") from None
    return text


class RowReport:
    """Counts what was read, used, cut and left out; raises for bad rows when the policy is "error"."""

    def __init__(self, on_bad_row: str = "error"):
        self.on_bad_row = on_bad_row
        self.rows = 0
        self.used = 0
        self.blank_lines = 0
        self.truncated_rows = 0
        self.truncated_tokens = 0
        self.bad: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.notices: list[str] = []
        self.parts: dict[str, RowReport] = {}
        self._problems: list[tuple[str, BadRow]] = []

    def part(self, name: str) -> RowReport:
        """The account of one source among several, which adds up here; of the only one, "": this account itself."""
        if not name:
            return self
        return self.parts.setdefault(name, RowReport(self.on_bad_row))

    def reject(self, where: str, error: BadRow) -> None:
        """Counts a bad row; with "error" it is kept for `finish`, which is called at once when there are many."""
        self.bad[error.reason] += 1
        self.examples.setdefault(error.reason, f"{where}  {error.detail}")
        if self.on_bad_row == "error":
            self._problems.append((where, error))
            if len(self._problems) >= GATHERED:
                self.finish()

    def notice(self, text: str) -> None:
        """Says something once."""
        if text not in self.notices:
            self.notices.append(text)

    def finish(self) -> None:
        """Raises when bad rows were met and the policy is to stop."""
        if not self._problems:
            return
        fixes = [f"try  {fix}" for fix in dict.fromkeys(fix for _, error in self._problems for fix in error.fixes)]
        skip = "try  data.on_bad_row=skip  to leave such rows out and count them"
        if len(self._problems) == 1:
            where, error = self._problems[0]
            raise UserError(error.detail, where=where, hint=[*fixes, skip])
        total = len(self._problems)
        listed = [f"{where}  {error.detail}" for where, error in self._problems[:SHOWN]]
        more = [f"and {total - SHOWN} more"] if total > SHOWN else []
        at_least = "at least " if total >= GATHERED else ""
        raise UserError(f"{at_least}{total} rows cannot be used", hint=[*listed, *more, *fixes, skip])

    def summary(self) -> dict[str, Any]:
        """For the manifest of a run."""
        everything = [self, *self.parts.values()]
        bad = sum((one.bad for one in everything), Counter())
        counted = {name: sum(getattr(one, name) for one in everything) for name in COUNTS}
        notices = [f"{name}: {notice}" for name, part in self.parts.items() for notice in part.notices]
        return counted | {"bad_rows": dict(sorted(bad.items())), "notices": notices + self.notices}

    def lines(self) -> list[str]:
        """For people: one line for each thing that was left out, cut or chosen."""
        told = [f"{name}: {line}" for name, part in self.parts.items() for line in part.lines()]
        told += [f"{count} rows left out: {reason}; first: {self.examples[reason]}" for reason, count in sorted(self.bad.items())]
        if self.blank_lines:
            told.append(f"{self.blank_lines} blank lines skipped")
        if self.truncated_rows:
            told.append(f"{self.truncated_rows} rows cut at train.sequence_length, {self.truncated_tokens} tokens lost")
        return told + self.notices
