"""Names and places of persistent tensors, without any memory: what a plan needs and what a checkpoint writes down."""
from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hierarchos.graph.memory import aligned
from hierarchos.graph.tensor import Spec

JOIN = " & "                                        # "q & k & v": tensors that lie side by side, as one along their first axis


@dataclass(frozen=True)
class Location:
    """A tensor in an arena: its first byte and its spec."""

    arena: str
    offset: int
    spec: Spec

    def overlaps(self, other: Location) -> bool:
        return (self.arena == other.arena and self.offset < other.offset + other.spec.nbytes
                and other.offset < self.offset + self.spec.nbytes)


class Overlap:
    """Whether two names of a layout share memory: `overlap(first, second)`."""

    def __init__(self, layout: StoreLayout):
        self.layout = layout

    def __call__(self, first: str, second: str) -> bool:
        return first == second or self.layout.find(first).overlaps(self.layout.find(second))

    def index(self, names: Iterable[str]) -> Callable[[str], list[str]]:
        """A function from a name to those of `names` that share memory with it, in order of place; whole arenas first."""
        whole = [name for name in names if name in self.layout.arenas]
        places = sorted((place.arena, place.offset, place.offset + place.spec.nbytes, name)
                        for name in names if name not in self.layout.arenas for place in [self.layout.find(name)])
        reach, furthest = [], ("", 0)                               # the furthest end up to each place
        for arena, _, end, _ in places:
            furthest = max(furthest, (arena, end))
            reach.append(furthest)

        def among(name: str) -> list[str]:
            place = self.layout.find(name)
            found, at = [], bisect_left(places, (place.arena, place.offset + place.spec.nbytes)) - 1
            while at >= 0 and reach[at] > (place.arena, place.offset):
                if places[at][:1] == (place.arena,) and places[at][2] > place.offset:
                    found.append(places[at][3])
                at -= 1
            found += [other for other in whole if self(name, other)]
            return found[::-1]
        return among


@dataclass
class StoreLayout:
    """Arenas of named tensors. Every tensor starts at a multiple of 256 bytes; an arena's name is the name of all of it, flat f32."""

    locations: dict[str, Location] = field(default_factory=dict)
    arenas: dict[str, int] = field(default_factory=dict)            # bytes of each arena
    joined: dict[str, Location] = field(default_factory=dict, repr=False, compare=False)       # found before, by the names of neighbours

    def allocate(self, arena: str, specs: Mapping[str, Spec]) -> None:
        """Adds an arena that holds `specs` in their order."""
        offset = 0
        for name, spec in specs.items():
            self._add(name, Location(arena, offset, spec))
            offset += aligned(spec.nbytes)
        self._add(arena, Location(arena, 0, Spec((offset // 4,))))
        self.arenas[arena] = offset

    def mirror(self, arena: str, of: str) -> None:
        """Adds an arena laid out as arena `of`: its tensor for NAME is called `arena/NAME`, at the same offset."""
        for name, location in self.members(of).items():
            self._add(f"{arena}/{name}", Location(arena, location.offset, location.spec))
        self._add(arena, Location(arena, 0, self.locations[of].spec))
        self.arenas[arena] = self.arenas[of]

    def members(self, arena: str) -> dict[str, Location]:
        """The tensors of an arena in order, without the name of the whole."""
        return {name: place for name, place in self.locations.items() if place.arena == arena and name != arena}

    def find(self, name: str) -> Location:
        """Where a tensor (or what `join` named) lies; raises KeyError with the nearest name."""
        if name in self.locations:
            return self.locations[name]
        if JOIN in name:
            if name not in self.joined:
                parts = [self.find(part) for part in name.split(JOIN)]
                spec = Spec((sum(part.spec.shape[0] for part in parts), *parts[0].spec.shape[1:]), parts[0].spec.dtype)
                self.joined[name] = Location(parts[0].arena, parts[0].offset, spec)
            return self.joined[name]
        from difflib import get_close_matches
        near = get_close_matches(name, self.locations, 1)
        raise KeyError(f"the store has no tensor {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))

    def join(self, names: Sequence[str]) -> str | None:
        """The name of neighbouring tensors, given in their order, as one tensor along the first axis; None where they are no neighbours."""
        places = [self.find(name) for name in names]
        for before, after in pairwise(places):
            fits = before.spec.shape[1:] == after.spec.shape[1:] and before.spec.dtype == after.spec.dtype
            if before.arena != after.arena or before.offset + before.spec.nbytes != after.offset or not fits:
                return None
        return JOIN.join(names)

    @property
    def overlap(self) -> Overlap:
        """Whether two names share memory: `layout.overlap(first, second)`."""
        return Overlap(self)

    def remove(self, arena: str) -> None:
        """Forgets an arena and its tensors."""
        self.locations = {name: place for name, place in self.locations.items() if place.arena != arena}
        self.joined.clear()
        del self.arenas[arena]

    @property
    def nbytes(self) -> int:
        return sum(self.arenas.values())

    def _add(self, name: str, location: Location) -> None:
        if name in self.locations:
            raise ValueError(f"the store has a tensor {name!r} already, in arena {self.locations[name].arena!r}")
        self.locations[name] = location
