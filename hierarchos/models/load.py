"""A package folder -> model and parameter values; and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.hub.held import Held, Lazy, as_it_is
from hierarchos.hub.match import Match, match
from hierarchos.hub.package import Package
from hierarchos.hub.write import SHARD_BYTES, write_package
from hierarchos.models.aliases import wrapped_names
from hierarchos.models.family import Model
from hierarchos.models.registry import read_model, resolve
from hierarchos.nn.initialise import initial_value
from hierarchos.nn.weights import ParameterSpec

if TYPE_CHECKING:
    import numpy as np

FRESH_SEED = 0          # of a head that a package lacks: the same each time it is loaded
AHEAD = 64 << 20        # bytes of float32 that are fetched from the file before they are asked for


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model and where its values lie. `notes`: what a person should know (unused tensors, a head that is not tied).

    held: what the package holds, under the names of parameters where it cuts them otherwise. fresh: parameters that the package lacks
    and that start from nothing: a head on an encoder that has none."""

    model: Model
    package: Package
    match: Match
    notes: tuple[str, ...]
    fresh: tuple[ParameterSpec, ...] = ()
    held: dict[str, Held] = field(default_factory=dict)

    def value(self, name: str) -> np.ndarray:
        """float32 values of a parameter: a view of the file where it is float32 already."""
        for spec in self.fresh:
            if spec.name == name:
                return initial_value(spec, FRESH_SEED)
        return self.source(name).read()

    def source(self, name: str) -> Held:
        """Where the values of a parameter lie."""
        return self.held[self.match.source[name]]

    def values(self) -> Mapping[str, np.ndarray]:
        """All parameters in the model's order, each read when it is asked for; the last one's memory is given back by then."""
        return Values(self)


class Values(Mapping):
    """Parameters of a package by name. Asking for one lets the system fetch those behind it."""

    def __init__(self, loaded: Loaded):
        self.loaded = loaded
        fresh = [spec.name for spec in loaded.fresh]
        self.place = {name: index for index, name in enumerate((*loaded.match.source, *fresh))}
        self.order = list(loaded.match.source)
        self.last: str | None = None

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.place:
            raise KeyError(name)
        if self.last:
            self.loaded.source(self.last).done()
        self.last = name if name in self.loaded.match.source else None
        self._fetch_behind(self.place[name])
        return self.loaded.value(name)

    def _fetch_behind(self, place: int) -> None:
        """Asks for what comes next in order, up to AHEAD bytes."""
        left = AHEAD
        for name in self.order[place + 1:]:
            source = self.loaded.source(name)
            left -= 4 * math.prod(source.shape)
            if left < 0:
                return
            source.ahead()

    def __iter__(self) -> Iterator[str]:
        return iter(self.place)

    def __len__(self) -> int:
        return len(self.place)


def load_model(folder: str | Path, changes: Mapping | None = None) -> Loaded:
    """Opens a package; raises `UserError` for an unsupported config, unusable files, missing tensors or wrong shapes.

    changes: fields that replace those of config.json (model.config of a run)."""
    model, package = read_model(folder), Package(folder)
    if changes:
        model = resolve({**model.raw, **changes}, "model.config")
    held = model.family.disk.open(package)
    model, notes = _decide_tie(package, held, model)
    fresh = _fresh(held, model)
    needed = {spec.name: spec.shape for spec in model.parameters if spec not in fresh}
    tied = {model.family.embedding: model.family.head} if model.config.tied else {}
    found = {name: tensor.shape for name, tensor in held.items()}
    fit = match(found, needed, str(package.folder), partial(disk_names, model), model.family.buffers, tied)
    _check_constants(package, model)
    if fit.extra and not model.is_part:
        listed = ", ".join(fit.extra[:8]) + (f" and {len(fit.extra) - 8} more" if len(fit.extra) > 8 else "")
        notes += (f"{len(fit.extra)} tensors of the package are not used: {listed}",)
    if any(spec.used for spec in fresh):
        notes += (f"the package is an encoder without a head for masked tokens: {len(fresh)} parameters of the head start from nothing",)
    return Loaded(model, package, fit, notes, fresh, held)


def disk_names(model: Model, name: str) -> tuple[str, ...]:
    """What a package may call a parameter, the best first: inside a wrapper, by its own name, in a package of the bare model."""
    names = tuple(dict.fromkeys((model.family.disk.name(name), name)))
    wrapped = [place for each in names for place in wrapped_names(model.wrapper, each)] if model.wrapper else ()
    bare = [each.removeprefix(f"{model.family.base}.") for each in names]
    return (*wrapped, *names, *bare, *map(_first_spelling, (*names, *bare)))


def _first_spelling(name: str) -> str:
    """What the first BERT packages call the parameters of a norm."""
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def _fresh(held: Mapping[str, Held], model: Model) -> tuple[ParameterSpec, ...]:
    """Parameters that may be absent: those that nothing reads, and the head of an encoder when all of it is absent."""
    absent = [spec for spec in model.parameters if not any(place in held for place in disk_names(model, spec.name))]
    head = [spec for spec in model.parameters if not spec.name.startswith(f"{model.family.base}.")]
    without_head = model.family.task == "masked" and all(spec in absent for spec in head)
    return tuple(spec for spec in absent if not spec.used or (without_head and spec in head))


def _check_constants(package: Package, model: Model) -> None:
    """Refuses numbers other than those that the family fixes."""
    import numpy as np

    for name, value in model.family.constants(model.config).items():
        if name in package.home and not np.allclose(package.read(name), value, rtol=0.01, atol=0.0):     # a file may be bfloat16
            raise UserError(f"{name} is {package.read(name).ravel()}; only {value} is implemented", where=str(package.folder))


def _decide_tie(package: Package, held: Mapping[str, Held], model: Model) -> tuple[Model, tuple[str, ...]]:
    """A config that ties while the file holds a head with other values is wrong: the values win, as in the reference."""
    if not model.config.tied:
        return model, ()
    embedding, head = (next((place for place in disk_names(model, name) if place in held), None)
                       for name in (model.family.embedding, model.family.head))
    if head is None or embedding is None or package.same(head, embedding):
        return model, ()
    note = "config.json ties the head to the embedding, but the package holds two different tensors: both are kept, untied"
    return resolve({**model.raw, "tie_word_embeddings": False}, str(package.folder / "config.json")), (note,)


def save_model(folder: str | Path, model: Model, values: Mapping[str, np.ndarray], *, companions: str | Path | None = None,
               files: Mapping[str, str | bytes] | None = None, shard_bytes: int = SHARD_BYTES) -> Path:
    """Writes a package that loads here and in Transformers; the values are those of all `model.parameters`.

    companions: the package that the model came from, whose tokenizer is copied, and what it holds beside the model: towers."""
    import numpy as np

    ordered = {spec.name: Lazy(spec.shape, partial(values.__getitem__, spec.name)) for spec in model.parameters}
    if model.is_part:
        tensors = _among_others(model, ordered, companions)
    else:
        tensors = model.family.disk.cut({model.family.disk.name(name): value for name, value in ordered.items()})
    for name, value in model.family.constants(model.config).items():
        tensors[name] = Lazy(np.shape(value), partial(np.asarray, value, np.float32))
    return write_package(folder, {**model.raw, "tie_word_embeddings": model.config.tied}, tensors, shard_bytes=shard_bytes,
                         companions=companions, files=files)


def _among_others(model: Model, values: Mapping[str, Lazy], source: str | Path | None) -> dict[str, Lazy]:
    """The values under the names of the package that they came from, and all that it holds beside them, unchanged to the bit."""
    if source is None or not (Path(source) / "config.json").is_file():
        raise UserError(f"{model.raw['model_type']} is more than its text model, and there is no package to take the rest from",
                        hint="start from a package (model=local model.path=FOLDER)", outcome="nothing was written")
    loaded = load_model(source)
    heads = () if not model.config.tied else disk_names(model, model.family.head)        # a copy of the embedding would be out of date
    replaced = {name for place in loaded.match.source.values() for name in loaded.held[place].names}.union(heads)
    named = {loaded.match.source.get(name, name): value for name, value in values.items()}
    rest = {name: as_it_is(loaded.package, name) for name in loaded.package.home if name not in replaced}
    return model.family.disk.cut(named) | rest
