"""Several mistakes told at once."""
from __future__ import annotations

from collections.abc import Sequence

from hierarchos.errors import NOTHING_STARTED, UserError


class Problems(UserError):
    """All mistakes of a command line and its files, in the order in which they were found."""

    def __init__(self, errors: Sequence[UserError]):
        super().__init__(f"{len(errors)} mistakes")
        self.errors = list(errors)

    def lines(self) -> list[str]:
        shown: list[str] = []
        for error in self.errors:
            error.outcome = None
            shown += error.lines()
        return [*shown, f"{len(self.errors)} mistakes; {NOTHING_STARTED}"]


def raise_all(errors: Sequence[UserError]) -> None:
    """Raises nothing, the one error, or all of them together; the same text is told once."""
    distinct = list({str(error): error for error in errors}.values())
    if distinct:
        raise distinct[0] if len(distinct) == 1 else Problems(distinct)
