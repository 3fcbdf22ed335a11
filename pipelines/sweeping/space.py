"""What a search may draw: the settings of a command line that have several values or an interval."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep

from pipelines.settings.compose import Request, hydra_for
from pipelines.settings.schema import settings


@dataclass(frozen=True)
class Space:
    """fixed: words that all jobs have. swept: overrides among which values are drawn."""

    fixed: tuple[str, ...]
    swept: tuple[Override, ...]

    @classmethod
    def of(cls, request: Request) -> Space:
        parser = OverridesParser.create(config_loader=hydra_for(request.folders).config_loader)
        parsed = [(word, parser.parse_override(word)) for word in request.overrides]
        return cls(tuple(word for word, override in parsed if not override.is_sweep_override()),
                   tuple(override for _, override in parsed if override.is_sweep_override()))

    def draw(self, trial: Any) -> list[str]:
        """The words of one job; trial: of Optuna."""
        return [*self.fixed, *(f"{override.key_or_group}={drawn(override, trial)}" for override in self.swept)]

    def corners(self) -> list[list[str]]:
        """Words of the jobs at both ends of all intervals, with the first of all other values: to be checked before anything starts."""
        ends = [[f"{override.key_or_group}={end(override, side)}" for override in self.swept] for side in (0, 1)]
        return [[*self.fixed, *words] for words in ends] if self.swept else []


def is_interval(override: Override) -> bool:
    return isinstance(override.value(), IntervalSweep)


def end(override: Override, side: int) -> str:
    """The lower or upper end; of other values the first."""
    value = override.value()
    if isinstance(value, IntervalSweep):
        return number((value.start, value.end)[side], is_whole(override))
    return next(iter(override.sweep_string_iterator()))


def drawn(override: Override, trial: Any) -> str:
    """One value, as it would be typed."""
    key, value = override.key_or_group, override.value()
    if isinstance(value, IntervalSweep):
        log = "log" in value.tags
        if is_whole(override):
            return number(trial.suggest_int(key, math.ceil(value.start), math.floor(value.end), log=log))
        return number(trial.suggest_float(key, value.start, value.end, log=log))
    choices = list(override.sweep_string_iterator())
    if isinstance(value, RangeSweep) and len(choices) > 1 and is_whole(override) and value.step > 0:
        return number(trial.suggest_int(key, int(choices[0]), int(choices[-1]), step=int(value.step)))
    return trial.suggest_categorical(key, choices)


def is_whole(override: Override) -> bool:
    """Whether only whole numbers are drawn: the setting takes no others, or int(interval(...)) was typed."""
    value, setting = override.value(), settings().get(override.key_or_group)
    if setting is not None and setting.kind in (int, float):
        return setting.kind is int
    return all(isinstance(one, int) for one in (value.start, value.end if isinstance(value, IntervalSweep) else value.step))


def number(value: float, whole: bool = False) -> str:
    """All digits that matter."""
    return repr(int(value)) if whole and float(value).is_integer() else repr(value)
