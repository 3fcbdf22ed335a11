"""The one error that people cause and can act on: what was found, where, the nearest valid thing, what to type.

A command line catches `UserError`, prints `str(error)` and ends with status 2; no traceback is shown. Broken invariants of our own
use `assert` instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

WHERE_COLUMN = 43  # the place goes beside a message that is shorter than this, below it otherwise
NOTHING_STARTED = "nothing was started"


class UserError(ValueError):
    """Wrong input, told so that the reader can correct it.

    what: one sentence without a full stop. where: `file:line`, a key, or None. nearest: the valid name that was probably meant.
    hint: further lines of advice. command: what to type. outcome: what is (not) lost; None leaves it out.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        nearest: str | None = None,
        hint: str | Iterable[str] = (),
        command: str | None = None,
        outcome: str | None = NOTHING_STARTED,
    ):
        super().__init__(what)
        self.what = what
        self.where = where
        self.nearest = nearest
        self.hint = (hint,) if isinstance(hint, str) else tuple(hint)
        self.command = command
        self.outcome = outcome

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The message as it is shown: the finding and its place, then advice, indented by two."""
        advice = [f"did you mean  {self.nearest} ?"] if self.nearest else []
        advice += self.hint
        advice += [f"try  {self.command}"] if self.command else []
        return self._headline() + [f"  {line}" for line in _with_outcome(advice, self.outcome)]

    def _headline(self) -> list[str]:
        if self.where is None:
            return [self.what]
        if len(self.what) < WHERE_COLUMN - 1:
            return [f"{self.what:<{WHERE_COLUMN}}{self.where}"]
        return [self.what, f"  {self.where}"]

    def __reduce__(self):
        return _rebuild, (type(self), self.__dict__.copy())


def _rebuild(kind: type[UserError], fields: dict) -> UserError:
    """Pickling support: errors cross the process boundary of parallel sweeps with every field."""
    error = kind.__new__(kind, fields["what"])
    error.args = (fields["what"],)
    error.__dict__.update(fields)
    return error


def _with_outcome(advice: list[str], outcome: str | None) -> list[str]:
    """Puts the outcome beside a short single piece of advice, below longer ones."""
    if outcome is None:
        return advice
    if len(advice) == 1 and len(advice[0]) < WHERE_COLUMN - 3:
        return [f"{advice[0]:<{WHERE_COLUMN - 2}}{outcome}"]
    return [*advice, outcome]


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The valid name closest to `name` (ignoring case), or None where nothing is close."""
    choices = {choice.lower(): choice for choice in names}
    found = difflib.get_close_matches(name.lower(), choices, n=1, cutoff=cutoff)
    return choices[found[0]] if found else None
