"""Names and places of persistent tensors, without any memory: what a plan needs and what a checkpoint writes down."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
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


@dataclass
class StoreLayout:
    """Arenas of named tensors. Every tensor starts at a multiple of 256 bytes; an arena's name is the name of all of it, flat f32."""

    locations: dict[str, Location] = field(default_factory=dict)
    arenas: dict[str, int] = field(default_factory=dict)            # bytes of each arena

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
        if JOIN in name and name not in self.locations:
            parts = [self.find(part) for part in name.split(JOIN)]
            rows = sum(part.spec.shape[0] for part in parts)
            return Location(parts[0].arena, parts[0].offset, Spec((rows, *parts[0].spec.shape[1:]), parts[0].spec.dtype))
        if name not in self.locations:
            from difflib import get_close_matches
            near = get_close_matches(name, self.locations, 1)
            raise KeyError(f"the store has no tensor {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return self.locations[name]

    def join(self, names: Sequence[str]) -> str | None:
        """The name of neighbouring tensors, given in their order, as one tensor along the first axis; None where they are no neighbours."""
        places = [self.find(name) for name in names]
        for before, after in pairwise(places):
            fits = before.spec.shape[1:] == after.spec.shape[1:] and before.spec.dtype == after.spec.dtype
            if before.arena != after.arena or before.offset + before.spec.nbytes != after.offset or not fits:
                return None
        return JOIN.join(names)

    def overlap(self, first: str, second: str) -> bool:
        """Whether two names share memory."""
        return first == second or self.find(first).overlaps(self.find(second))

    def remove(self, arena: str) -> None:
        """Forgets an arena and its tensors."""
        self.locations = {name: place for name, place in self.locations.items() if place.arena != arena}
        del self.arenas[arena]

    @property
    def nbytes(self) -> int:
        return sum(self.arenas.values())

    def _add(self, name: str, location: Location) -> None:
        if name in self.locations:
            raise ValueError(f"the store has a tensor {name!r} already, in arena {self.locations[name].arena!r}")
        self.locations[name] = location
