"""What a package holds of a model: whole tensors, rows of one tensor, or a stack of several; nothing is read before it is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hierarchos.hub.package import Package

if TYPE_CHECKING:
    import numpy as np


class Held(Protocol):
    """A tensor under one name. names: the tensors of the package that it is made of."""

    names: tuple[str, ...]
    shape: tuple[int, ...]

    def read(self) -> np.ndarray:
        """float32 values; a view of the file where it holds just these in float32."""

    def ahead(self) -> None:
        """Asks the system to fetch the bytes."""

    def done(self) -> None:
        """Tells the system that the bytes are not needed soon."""


class Tensors:
    """The common part: bytes of the tensors `names` of `package`."""

    def __init__(self, package: Package, *names: str):
        self.package, self.names = package, names

    def ahead(self) -> None:
        for name in self.names:
            self.package.home[name].advise(name, needed=True)

    def done(self) -> None:
        for name in self.names:
            self.package.home[name].advise(name, needed=False)


class Whole(Tensors):
    """A tensor of the package as it is."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.package.shape(self.names[0])

    def read(self) -> np.ndarray:
        return self.package.read(self.names[0])


class Rows(Tensors):
    """Part `index` of `count` equal parts of a tensor along its first axis."""

    def __init__(self, package: Package, name: str, index: int, count: int):
        super().__init__(package, name)
        rows, *rest = package.shape(name)
        self.start, self.shape = index * (rows // count), (rows // count, *rest)

    def read(self) -> np.ndarray:
        return self.package.read(self.names[0], self.start, self.start + self.shape[0])


class Stack(Tensors):
    """Tensors one after the other along a new first axis, each of `height` tensors of the package one below the other."""

    def __init__(self, package: Package, names: tuple[str, ...], height: int):
        super().__init__(package, *names)
        self.height = height
        rows, *rest = package.shape(names[0])
        self.shape = (len(names) // height, rows * height, *rest)

    def read(self) -> np.ndarray:
        import numpy as np

        out = np.empty((len(self.names), *self.package.shape(self.names[0])), np.float32)
        for place, name in zip(out, self.names, strict=True):
            place[...] = self.package.read(name)
        return out.reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Lazy:
    """A tensor to be written whose values are made when its turn comes. dtype: its name in the file."""

    shape: tuple[int, ...]
    make: Callable[[], np.ndarray]
    dtype: str = "F32"

    @property
    def nbytes(self) -> int:
        from hierarchos.hub.header import ITEM_BYTES

        return ITEM_BYTES[self.dtype] * math.prod(self.shape)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.make()


def as_it_is(package: Package, name: str) -> Lazy:
    """A tensor to be written with the bytes that the package holds, whatever their type."""
    entry = package.home[name].entries[name]
    return Lazy(entry.shape, lambda: package.home[name].raw(name), entry.dtype)
