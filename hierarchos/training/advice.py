"""Settings with which a run that is too large would fit, each with what it would need by planning it."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hierarchos.graph.need import Need
from hierarchos.training.need import Planner, Shapes
from hierarchos.training.settings import TrainSettings

SHORTEST = 32                                       # tokens; shorter sequences teach little
MOMENTUM = 0.9                                      # the usual one

Change = dict[str, object]                          # setting below `train` -> value


@dataclass(frozen=True)
class Alternative:
    """words: what to type; need: of the run with them."""

    words: str
    need: Need


def alternatives(planner: Planner, settings: TrainSettings, shapes: Shapes, limit: int) -> list[Alternative]:
    """One for each setting that would need less: its first value that fits into `limit` bytes, else its smallest; where none fits
    alone, also the fewest that fit together. Settings that leave the result as it is come first."""
    known: dict[frozenset, Need] = {}

    def need(*changes: Change) -> Need:
        change = {name: value for change in changes for name, value in change.items()}
        key = frozenset(change.items())
        if key not in known:
            known[key] = planned(planner, settings, change, shapes)
        return known[key]

    def mildest(ladder: list[Change], *others: Change) -> Change:
        return next((change for change in ladder if need(*others, change).total <= limit), ladder[-1])

    present, tried = need().total, [(ladder, mildest(ladder)) for ladder in ladders(settings)]
    useful = [(ladder, change) for ladder, change in tried if need(change).total < present]
    found = [Alternative(words(change), need(change)) for _, change in useful]
    if len(found) > 1 and all(one.need.total > limit for one in found):
        kept = dict(enumerate(change for _, change in useful))
        for index in sorted(kept, reverse=True):                # gives up first what changes the result most
            others = [change for other, change in kept.items() if other != index]
            if need(*others).total <= limit:
                del kept[index]
        for index in kept:
            kept[index] = mildest(useful[index][0], *(change for other, change in kept.items() if other != index))
        together = {name: value for change in kept.values() for name, value in change.items()}
        found.append(Alternative(words(together), need(together)))
    return found


def states(planner: Planner, settings: TrainSettings) -> list[Alternative]:
    """What the run keeps all the time, as it is (words: "") and with each leaner optimizer; no batch is small enough to need less."""
    optimizers = [change for ladder in ladders(settings) for change in ladder if any(name.startswith("optimizer.") for name in change)]
    return [Alternative(words(change), planner.states(apply(settings, change))) for change in ({}, *optimizers)]


def ladders(settings: TrainSettings) -> Iterator[list[Change]]:
    """For each setting the values to try, mildest first."""
    if not settings.recompute:
        yield [{"recompute": True}]
    if settings.batch_size > 1:
        yield [{"batch_size": rows, "accumulation": settings.accumulation * (settings.batch_size // rows)}
               for rows in halves(settings.batch_size, 1)]
    if settings.sequence_length > SHORTEST:
        yield [{"sequence_length": length} for length in halves(settings.sequence_length, SHORTEST)]
    if settings.optimizer.name == "adamw":
        yield [{"optimizer.name": "sgd", "optimizer.momentum": MOMENTUM}, {"optimizer.name": "sgd"}]
    elif settings.optimizer.momentum:
        yield [{"optimizer.momentum": 0.0}]


def halves(size: int, least: int) -> list[int]:
    """size / 2, size / 4, ... down to `least`."""
    found = []
    while size > least:
        size = max(size // 2, least)
        found.append(size)
    return found


def planned(planner: Planner, settings: TrainSettings, change: Change, shapes: Shapes) -> Need:
    """The need of the changed run; its batches are no larger than the changed settings say."""
    changed = apply(settings, change)
    capped = {(min(rows, changed.batch_size), min(length, changed.sequence_length)) for rows, length in shapes}
    return planner.training(changed, sorted(capped))


def apply(settings: TrainSettings, change: Change) -> TrainSettings:
    """The settings with a change made."""
    inner = {name.partition(".")[2]: value for name, value in change.items() if "." in name}
    outer = {name: value for name, value in change.items() if "." not in name}
    return replace(settings, optimizer=replace(settings.optimizer, **inner), **outer)


def words(change: Change) -> str:
    """What to type."""
    return " ".join(f"train.{name}={str(value).lower()}" for name, value in change.items())
