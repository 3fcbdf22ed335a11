"""Adapters on disk, as PEFT writes and reads them: adapter_config.json and adapter_model.safetensors.

Beside them `base.json`: SHA-256 of the base that the adapter was trained on; PEFT does not look at it.
"""
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError, nearest
from hierarchos.hub.safetensors_file import TensorFile, write_tensors
from hierarchos.hub.write import write_file, written_aside
from hierarchos.peft.adapted import Adapted, adapted, base_of
from hierarchos.peft.adapter import DEFAULT
from hierarchos.peft.config import CONFIG, LoraConfig, read_config, to_peft

if TYPE_CHECKING:
    import numpy as np

TENSORS, PICKLE, BASE = "adapter_model.safetensors", "adapter_model.bin", "base.json"
PREFIX = "base_model.model."
SHOWN = 6


@dataclass(frozen=True, eq=False)
class AdapterFile:
    """An adapter read from disk: configuration, tensors by PEFT's name without its prefix, SHA-256 of its base where it is known."""

    folder: Path
    config: LoraConfig
    tensors: TensorFile
    names: dict[str, str]
    base: str | None

    def read(self, leaf: str) -> np.ndarray:
        """float32 values of a tensor."""
        return self.tensors.read(self.names[leaf])

    def shape(self, leaf: str) -> tuple[int, ...]:
        return self.tensors.entries[self.names[leaf]].shape


def open_adapter(folder: str | Path) -> AdapterFile:
    """Reads configuration and header; raises UserError for pickles and for files that are no adapter."""
    folder = Path(folder)
    if not folder.is_dir():
        found = "a file" if folder.exists() else "not there"
        raise UserError(f"{folder} is {found}", where="adapter", hint=f"an adapter is a folder with {CONFIG} and {TENSORS}")
    config, path = read_config(folder), folder / TENSORS
    if not path.is_file():
        pickled = (folder / PICKLE).exists()
        hint = (f"{PICKLE} is a pickle, which can run code when it is read, so it is refused; save the adapter again with "
                "safe_serialization=True",) if pickled else ()
        raise UserError(f"an adapter needs {TENSORS}, there is none", where=str(folder), hint=hint, outcome="nothing was loaded")
    tensors = TensorFile(path)
    names = {name.removeprefix(PREFIX).replace(".modules_to_save.", "."): name for name in tensors.entries}
    return AdapterFile(folder, config, tensors, names, _base_hash(folder))


def _base_hash(folder: Path) -> str | None:
    try:
        found = json.loads((folder / BASE).read_text(encoding="utf-8"))
        return str(found["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def attach(model, file: AdapterFile, name: str = DEFAULT) -> Adapted:
    """The model with this adapter active; raises UserError where the adapter is one of another model."""
    where = str(file.folder / CONFIG)
    try:
        found = adapted(model, file.config, name, where=where)
    except UserError as error:
        error.hint = (*error.hint, f"the adapter was made for {file.config.base_model_name_or_path or 'another model'}")
        raise
    wanted = {leaf: spec.shape for spec in found.trained if (leaf := found.adapter.leaf(spec.name))}
    _check_tensors(file, wanted, found)
    return found


def _check_tensors(file: AdapterFile, wanted: Mapping[str, tuple[int, ...]], model: Adapted) -> None:
    """Every tensor must be there with its shape, and nothing that would be left out."""
    tables = {f"{module}.base_layer.weight" for module, lora in model.adapter.plan.loras.items() if lora.site.kind in ("embedding", "head")}
    known = {*wanted, *tables, f"{model.family.embedding}", f"{model.family.head}"}
    missing = [leaf for leaf in wanted if leaf not in file.names]
    extra = [leaf for leaf in file.names if leaf not in known]
    wrong = [leaf for leaf in wanted if leaf in file.names and tuple(file.shape(leaf)) != tuple(wanted[leaf])]
    if not missing and not extra and not wrong:
        return
    lines = [f"shape    {leaf} is {list(file.shape(leaf))}, {_asked(leaf, wanted[leaf], file.config)}" for leaf in wrong[:SHOWN]]
    lines += [f"missing  {leaf} {list(wanted[leaf])}" for leaf in missing[:SHOWN]]
    lines += [f"unused   {leaf} {list(file.shape(leaf))}" + _near(leaf, missing) for leaf in extra[:SHOWN]]
    counts = [f"{len(found)} {what}" for found, what in ((wrong, "with another shape"), (missing, "missing"), (extra, "unused")) if found]
    raise UserError(f"the adapter does not fit the model: of its tensors {', '.join(counts)}", where=str(file.folder / TENSORS),
                    hint=lines, outcome="nothing was loaded")


def _asked(leaf: str, shape: tuple[int, ...], config: LoraConfig) -> str:
    rank = ".lora_" in leaf and "magnitude" not in leaf
    return f"the model and rank {config.r} ask for {list(shape)}" if rank else f"the model asks for {list(shape)}"


def _near(leaf: str, missing: list[str]) -> str:
    near = nearest(leaf, missing, 0.8)
    return f"   (the model has {near})" if near else ""


def save_adapter(folder: str | Path, model: Adapted, values: Mapping[str, np.ndarray], *, config: LoraConfig | None = None,
                 base_name: str | None = None, base_hash: str | None = None, files: Mapping[str, str | bytes] | None = None) -> Path:
    """Writes the active adapter. values: by the names of parameters in a store. files: further files, such as a tokenizer's."""
    leaves = {leaf: spec.name for spec in model.trained if (leaf := model.adapter.leaf(spec.name))}
    tensors = {PREFIX + leaf: values[name] for leaf, name in leaves.items()}
    config = replace(config or model.adapter.config, target_modules=targets_of(model), base_model_name_or_path=base_name)
    return write_adapter(folder, config, tensors, base_hash, files)


def write_adapter(folder: str | Path, config: LoraConfig, tensors: Mapping[str, np.ndarray], base_hash: str | None = None,
                  files: Mapping[str, str | bytes] | None = None) -> Path:
    """Writes aside, syncs and renames; the place must be new or an empty folder."""
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already", where="adapter", hint="give a folder that does not exist yet",
                        outcome="nothing was written")
    with written_aside(folder) as aside:
        for name, content in (files or {}).items():
            write_file(aside / name, content)
        write_file(aside / CONFIG, json.dumps(to_peft(config), indent=2, sort_keys=True) + "\n")
        if base_hash:
            write_file(aside / BASE, json.dumps({"sha256": base_hash}) + "\n")
        write_tensors(aside / TENSORS, tensors)
    return folder


def targets_of(model: Adapted) -> tuple[str, ...] | str:
    """What to write as target_modules: the expression or list that was given; for all-linear the shortest list that means the same."""
    from hierarchos.peft.select import plan_of
    from hierarchos.peft.sites import sites_of

    config, plan = model.adapter.config, model.adapter.plan
    if config.target_modules != "all-linear":
        return config.target_modules
    ends = tuple(sorted({name.rpartition(".")[2] for name in plan.loras}))
    again = plan_of(replace(config, target_modules=ends), sites_of(base_of(model))) if ends else plan
    return ends if set(again.loras) == set(plan.loras) else tuple(plan.loras)
