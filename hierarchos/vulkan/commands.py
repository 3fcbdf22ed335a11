"""What a device executes: dispatches, fills and copies, with the memory that each one touches.

A command names addresses, never buffers. The recorder derives barriers from `reads` and `writes`: one is
placed exactly where a later command touches memory that an unfinished earlier one wrote (or overwrites what
it still reads).
"""
from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256


@dataclass(frozen=True)
class Shader:
    """A compute shader: SPIR-V with entry point `main` and push constants, no descriptors."""

    name: str
    code: bytes = field(repr=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the SPIR-V: the identity of the shader in pipeline caches and run manifests."""
        return sha256(self.code).hexdigest()


@dataclass(frozen=True)
class Span:
    """A range of device memory: first address and number of bytes.

    With a pitch only `width` bytes from every multiple of `pitch` after the first address belong to it: columns of a matrix."""

    address: int
    nbytes: int
    pitch: int = 0
    width: int = 0

    def beside(self, other: Span) -> bool:
        """Whether both are columns of one matrix that share no byte."""
        if self.pitch == 0 or self.pitch != other.pitch:
            return False
        distance = (other.address - self.address) % self.pitch
        return self.width <= distance and distance + other.width <= self.pitch


@dataclass(frozen=True)
class Dispatch:
    """One kernel launch.

    constants: values of specialization constants 0, 1, 2 ... as 32-bit patterns (bool = 0 or 1).
    push: the push-constant block, at most 128 bytes, addresses first.
    groups: number of workgroups in x, y, z, each at most 65535.
    operations, bytes_moved: estimates, used to bound the time of a submission and in profiles.
    """

    shader: Shader
    constants: tuple[int, ...]
    push: bytes
    groups: tuple[int, int, int]
    reads: tuple[Span, ...]
    writes: tuple[Span, ...]
    label: str
    operations: float = 0.0
    bytes_moved: float = 0.0


@dataclass(frozen=True)
class Fill:
    """Sets a span (multiple of 4 bytes) to a repeated 32-bit word."""

    span: Span
    word: int = 0
    label: str = "fill"


@dataclass(frozen=True)
class Copy:
    """Copies `nbytes` between two spans of equal size that do not overlap."""

    source: Span
    target: Span
    label: str = "copy"


Command = Dispatch | Fill | Copy
