"""A package with adapters on it, as something that is opened like a package."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.hub.match import Match
from hierarchos.hub.package import Package
from hierarchos.models.load import Loaded
from hierarchos.peft.adapted import Adapted, base_of
from hierarchos.peft.files import AdapterFile, attach, open_adapter
from hierarchos.peft.identity import base_hash
from hierarchos.peft.start import Start, takes_part

if TYPE_CHECKING:
    import numpy as np


COMPANIONS = ("tokenizer.json", "generation_config.json")


@dataclass(frozen=True, eq=False)
class AdaptedLoaded(Loaded):
    """`base`: the package as it is; files: the adapters by name. `model` is an `Adapted`."""

    base: Loaded | None = None
    files: Mapping[str, AdapterFile] | None = None

    def value(self, name: str) -> np.ndarray:
        """float32 values of a parameter of the base or of an adapter."""
        owner, mark, leaf = name.partition(":")
        return self.files[owner].read(leaf) if mark else self._base_value(name)

    def _base_value(self, name: str) -> np.ndarray:
        return self.start[name] if self.start else self.base.value(name)

    @property
    def start(self) -> Start | None:
        """The base less what the only adapter took from it (PEFT's own pissa and olora adapters)."""
        model: Adapted = self.model
        return Start(model, BaseValues(self.base), 0) if model.adapter and takes_part(model.adapter.config) else None

    def values(self) -> Mapping[str, np.ndarray]:
        return AllValues(self)

    def use(self, name: str | None) -> AdaptedLoaded:
        """With another adapter active, or none."""
        return replace(self, model=self.model.use(name))


@dataclass
class AllValues(Mapping):
    """All parameters of an opened package by name, each read when it is asked for."""

    loaded: Loaded

    def __getitem__(self, name: str) -> np.ndarray:
        return self.loaded.value(name)

    def __iter__(self) -> Iterator[str]:
        return (spec.name for spec in self.loaded.model.parameters)

    def __len__(self) -> int:
        return len(self.loaded.model.parameters)


class BaseValues(AllValues):
    """The parameters of a package without adapters."""


def load_adapters(loaded: Loaded, folders: Mapping[str, str | Path], active: str | None = None, check_base: bool = True) -> AdaptedLoaded:
    """Opens adapters by name on a package; the first (or `active`) one computes.

    check_base: compares the SHA-256 of the base with the one that the adapter was trained on, where the adapter says it."""
    files = {name: open_adapter(folder) for name, folder in folders.items()}
    model = loaded.model
    if check_base:
        _check_base(loaded, files)
    for name, file in files.items():
        model = attach(model, file, name)
    if len(files) > 1 and (part := [name for name, file in files.items() if takes_part(file.config)]):
        raise UserError(f"the adapter {part[0]} changes the base ({files[part[0]].config.init_lora_weights}), so it goes on it alone",
                        where=str(files[part[0]].folder), hint="convert it to plain LoRA when it is saved", outcome="nothing was loaded")
    model = model.use(active if active is not None else next(iter(files)))
    source = {spec.name: spec.name for spec in model.parameters}
    notes = loaded.notes + tuple(note for file in files.values() for note in _notes(file))
    return AdaptedLoaded(model, _with_companions(loaded.package, files), Match(source, loaded.match.extra), notes, base=loaded, files=files)


def _with_companions(package: Package, files: Mapping[str, AdapterFile]) -> Package:
    """The package, whose tokenizer and generation settings are taken from an adapter's folder where it has both."""
    found = next((file.folder for file in files.values() if all((file.folder / name).is_file() for name in COMPANIONS)), package.folder)
    result = copy(package)
    result.folder = found
    return result


def _notes(file: AdapterFile) -> tuple[str, ...]:
    return () if file.base else (f"the adapter {file.folder.name} does not say which base it was trained on"
                                 + (f" (it names {file.config.base_model_name_or_path})" if file.config.base_model_name_or_path else ""),)


def hash_of(loaded: Loaded) -> str:
    """The identity of a package's parameters."""
    return base_hash([spec.name for spec in base_of(loaded.model).parameters], BaseValues(loaded))


def _check_base(loaded: Loaded, files: Mapping[str, AdapterFile]) -> None:
    told = {name: file for name, file in files.items() if file.base}
    found = hash_of(loaded) if told else None
    for file in told.values():
        if file.base != found:
            raise UserError("the adapter was trained on another base: the weights are not those", where=str(file.folder),
                            hint=[f"it was trained on  {file.config.base_model_name_or_path or '?'}  {file.base[:12]}",
                                  f"this base is       {loaded.package.folder}  {found[:12]}"], outcome="nothing was loaded")
