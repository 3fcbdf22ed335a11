"""Initial values of parameters: seeded by name, so that no parameter's values depend on the others or on their order."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from hierarchos.nn.positions import interleaved_sines
from hierarchos.nn.weights import ONES, SINES, ZEROS, Constant, Normal, ParameterSpec

if TYPE_CHECKING:
    import numpy as np


class InitialValues(Mapping):
    """The initial values of parameters by name, each made when it is asked for and not kept."""

    def __init__(self, specs: Iterable[ParameterSpec], seed: int):
        self.specs, self.seed = {spec.name: spec for spec in specs}, seed

    def __getitem__(self, name: str) -> np.ndarray:
        return initial_value(self.specs[name], self.seed)

    def __iter__(self) -> Iterator[str]:
        return iter(self.specs)

    def __len__(self) -> int:
        return len(self.specs)


def initial_value(spec: ParameterSpec, seed: int) -> np.ndarray:
    """float32 values of one parameter. The generator is PCG64 seeded with (seed, CRC-32 of the name)."""
    import numpy as np

    if spec.initial == ZEROS:
        return np.zeros(spec.shape, np.float32)
    if spec.initial == ONES:
        return np.ones(spec.shape, np.float32)
    if spec.initial == SINES:
        return interleaved_sines(*spec.shape)
    if isinstance(spec.initial, Constant):
        return np.full(spec.shape, spec.initial.value, np.float32)
    assert isinstance(spec.initial, Normal), spec
    generator = np.random.Generator(np.random.PCG64([seed, zlib.crc32(spec.name.encode())]))
    values = generator.standard_normal(spec.shape, np.float32)
    while spec.initial.cutoff is not None and (outside := np.abs(values) > spec.initial.cutoff).any():
        values[outside] = generator.standard_normal(np.count_nonzero(outside), np.float32)
    values *= np.float32(spec.initial.std)
    return values
