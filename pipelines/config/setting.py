"""How a setting is declared: its default and what is accepted, next to each other.

`setting(1e-3, above=0)` is a dataclass field. The limits travel in the field's metadata, where the checks of the
command line, of YAML files and of the composed configuration find them.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

REQUIRED = "???"          # OmegaConf's mark of a value that somebody has to give


@dataclass(frozen=True)
class Limits:
    """What a value must satisfy beyond its type.

    choices: the only texts allowed. planned: names that will come, refused by name. path: a file or folder,
    `~` is expanded. accepts: types of a setting that takes several kinds ("text or list of texts"). may_be_empty: a text
    without any character means something.
    """

    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    path: bool = False
    accepts: tuple[type, ...] = ()
    may_be_empty: bool = False

    def range_text(self) -> str:
        """The range in words, "" where there is none: "above 0", "from 0 to 1"."""
        if self.at_least is not None and self.at_most is not None:
            return f"from {number(self.at_least)} to {number(self.at_most)}"
        words = {"above": self.above, "at least": self.at_least, "below": self.below, "at most": self.at_most}
        return " and ".join(f"{word} {number(limit)}" for word, limit in words.items() if limit is not None)

    def holds(self, value: float) -> bool:
        """Whether a number lies in the range; NaN never does."""
        if value != value:
            return False
        return ((self.above is None or value > self.above) and (self.at_least is None or value >= self.at_least)
                and (self.below is None or value < self.below) and (self.at_most is None or value <= self.at_most))


def setting(default: Any = REQUIRED, **limits: Any) -> Any:
    """A dataclass field with limits; lists and dicts are copied for each instance."""
    metadata = {"limits": Limits(**limits)}
    if isinstance(default, (list, dict)):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def number(value: float) -> str:
    """A limit as people write it: whole numbers in full, others short."""
    return str(value) if isinstance(value, int) else f"{value:g}"
