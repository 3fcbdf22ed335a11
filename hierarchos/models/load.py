"""A package folder -> model and parameter values; and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.hub.match import Match, match
from hierarchos.hub.package import Package
from hierarchos.hub.write import SHARD_BYTES, write_package
from hierarchos.models.family import Model
from hierarchos.models.registry import read_model, resolve

if TYPE_CHECKING:
    import numpy as np

HEAD = "lm_head.weight"


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model and where its values lie. `notes`: what a person should know (unused tensors, a head that is not tied)."""

    model: Model
    package: Package
    match: Match
    notes: tuple[str, ...]

    def value(self, name: str) -> np.ndarray:
        """float32 values of a parameter: a view of the file where it is float32 already."""
        return self.package.read(self.match.source[name])

    def values(self) -> dict[str, np.ndarray]:
        """All parameters."""
        return {name: self.value(name) for name in self.match.source}


def load_model(folder: str | Path, changes: Mapping | None = None) -> Loaded:
    """Opens a package; raises `UserError` for an unsupported config, unusable files, missing tensors or wrong shapes.

    changes: fields that replace those of config.json (model.config of a run)."""
    model, package = read_model(folder), Package(folder)
    if changes:
        model = resolve({**model.raw, **changes}, "model.config")
    model, notes = _decide_tie(package, model)
    needed = {spec.name: spec.shape for spec in model.parameters}
    tied = {model.family.embedding: HEAD} if model.config.tied else {}
    found = {name: entry.shape for name, entry in package.entries.items()}
    fit = match(found, needed, str(package.folder), (f"{model.family.base}.",), model.family.buffers, tied)
    if fit.extra:
        listed = ", ".join(fit.extra[:8]) + (f" and {len(fit.extra) - 8} more" if len(fit.extra) > 8 else "")
        notes += (f"{len(fit.extra)} tensors of the package are not used: {listed}",)
    return Loaded(model, package, fit, notes)


def _decide_tie(package: Package, model: Model) -> tuple[Model, tuple[str, ...]]:
    """A config that ties while the file holds a head with other values is wrong: the values win, as in the reference."""
    embedding = next((name for name in (model.family.embedding, model.family.embedding.removeprefix(f"{model.family.base}."))
                      if name in package.home), None)
    if not model.config.tied or HEAD not in package.home or embedding is None or package.same(HEAD, embedding):
        return model, ()
    note = "config.json ties the head to the embedding, but the package holds two different tensors: both are kept, untied"
    return resolve({**model.raw, "tie_word_embeddings": False}, str(package.folder / "config.json")), (note,)


def save_model(folder: str | Path, model: Model, values: Mapping[str, np.ndarray], *, companions: str | Path | None = None,
               files: Mapping[str, str | bytes] | None = None, shard_bytes: int = SHARD_BYTES) -> Path:
    """Writes a package that loads here and in Transformers; the values are those of all `model.parameters`."""
    ordered = {spec.name: values[spec.name] for spec in model.parameters}
    return write_package(folder, {**model.raw, "tie_word_embeddings": model.config.tied}, ordered, shard_bytes=shard_bytes,
                         companions=companions, files=files)
