"""How the packages of a family call and cut its parameters, where that differs from what the family declares.

    Disk(names=(("self_attn.o_proj", "attn.out_proj"),),                                     # part of a name here, in packages
         fused=(Fused("attn.Wqkv", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),),
         stacked=(Stacked("experts.gate_up_proj", ("experts.{}.gate_proj.weight", "experts.{}.up_proj.weight")),))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hierarchos.hub.held import Held, Lazy, Rows, Stack, Whole
from hierarchos.hub.package import Package

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Fused:
    """`place` of a package holds the parameters `parts`, equally many rows of each, one below the other."""

    place: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class Stacked:
    """Item e of the parameter `name` is, in packages, the tensors `places` (with e for {}), one below the other."""

    name: str
    places: tuple[str, ...]


@dataclass(frozen=True)
class Disk:
    """The differences of a family's packages. `names` are tried in order; whole parts between dots are exchanged."""

    names: tuple[tuple[str, str], ...] = ()
    fused: tuple[Fused, ...] = ()
    stacked: tuple[Stacked, ...] = ()

    def name(self, parameter: str) -> str:
        """What packages call a parameter, but for the place that it may share with others."""
        for own, other in self.names:
            parameter = _exchanged(parameter, own, other)
        return parameter

    def open(self, package: Package) -> dict[str, Held]:
        """The package's tensors; those that are cut otherwise than parameters under the names of the parameters that they hold."""
        found: dict[str, Held] = {name: Whole(package, name) for name in package.home}
        for rule in self.fused:
            for place in [name for name in found if _exchanged(name, rule.place, "") != name]:
                if (package.shape(place) or (1,))[0] % len(rule.parts) == 0:
                    del found[place]
                    found |= {_exchanged(place, rule.place, part): Rows(package, place, index, len(rule.parts))
                              for index, part in enumerate(rule.parts)}
        for rule in self.stacked:
            found = _stacked(package, found, rule)
        return found

    def cut(self, values: Mapping[str, Lazy]) -> dict[str, Lazy]:
        """Parameters by the names of `name` -> tensors as packages hold them, in the same order."""
        out: dict[str, Lazy] = {}
        for name, value in values.items():
            out |= next(filter(None, (self._fused(name, values, rule) for rule in self.fused)), None) or self._split(name, value)
        return out

    def _fused(self, name: str, values: Mapping[str, Lazy], rule: Fused) -> dict[str, Lazy] | None:
        """The tensor that holds a parameter, if the rule is about it; the same for each of its parts."""
        place = next((whole for part in rule.parts if (whole := _exchanged(name, part, rule.place)) != name), None)
        if place is None:
            return None
        parts = [values[_exchanged(place, rule.place, part)] for part in rule.parts]
        return {place: Lazy((sum(part.shape[0] for part in parts), *parts[0].shape[1:]), partial(_below, parts))}

    def _split(self, name: str, value: Lazy) -> dict[str, Lazy]:
        """The tensors of a stacked parameter; a parameter that is none as it is."""
        rule = next((rule for rule in self.stacked if _exchanged(name, rule.name, "") != name), None)
        if rule is None:
            return {name: value}
        rows = value.shape[1] // len(rule.places)
        return {_exchanged(name, rule.name, place.format(item)):
                Lazy((rows, *value.shape[2:]), partial(_item, value, item, index * rows, rows))
                for item in range(value.shape[0]) for index, place in enumerate(rule.places)}


SAME = Disk()


def _stacked(package: Package, found: dict[str, Held], rule: Stacked) -> dict[str, Held]:
    """`found` with the tensors of a rule as parameters, where all of one are there and have one shape."""
    pattern = re.compile(r"(?P<before>(?:.*\.)?)" + re.escape(rule.places[0]).replace(r"\{\}", r"(?P<item>\d+)") + "$")
    counts: dict[str, int] = {}
    for name in found:
        if hit := pattern.match(name):
            counts[hit["before"]] = max(counts.get(hit["before"], 0), int(hit["item"]) + 1)
    for before, count in counts.items():
        names = tuple(before + place.format(item) for item in range(count) for place in rule.places)
        if all(name in found for name in names) and len({found[name].shape for name in names}) == 1:
            for name in names:
                del found[name]
            found[before + rule.name] = Stack(package, names, len(rule.places))
    return found


def _exchanged(name: str, own: str, other: str) -> str:
    """`name` with `own`, some of its parts between dots, in place of `other`; unchanged where it has no such parts."""
    dotted = f".{name}."
    return dotted.replace(f".{own}.", f".{other}.", 1)[1:-1] if f".{own}." in dotted else name


def _below(parts: Iterable[Lazy]) -> np.ndarray:
    import numpy as np

    return np.concatenate([np.asarray(part) for part in parts])


def _item(value: Lazy, item: int, first: int, rows: int) -> np.ndarray:
    import numpy as np

    return np.ascontiguousarray(np.asarray(value)[item, first:first + rows])
