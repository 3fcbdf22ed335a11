"""Writes the trained model as a Hugging Face package: run directory, `model` folder."""
from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.hashing import hash_folder
from pipelines.reading.model_card import model_card
from pipelines.stages.adapters import adapted_model, export_adapter, trains_adapter
from pipelines.stages.base import BaseStage
from pipelines.stages.checks import check_new_folder
from pipelines.stages.packages import fresh_model, loaded_package, tokenizer_of
from pipelines.stages.tokenize import TOKENIZER

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.models.family import Model
    from pipelines.config import Config
    from pipelines.stage import Context

MIB = 1 << 20


class Export(BaseStage):
    """Facts: size in MiB; the package is the artefact."""

    name = "export"
    groups = ("export", "peft")
    inputs = ("acquire", "tokenize", "train")
    modules = ("hierarchos.hub", "hierarchos.models")

    def check(self, config: Config) -> None:
        """A second copy never overwrites anything."""
        if config.export.path:
            check_new_folder(config.export.path, "export.path")

    def folder_in(self, run: Path, default: Path) -> Path:
        """The package's place."""
        return run / "model"

    def run(self, context: Context) -> dict:
        """Writes the package from the chosen checkpoint."""
        from hierarchos.models.load import save_model

        config, source = context.config, context.artefacts["acquire"].facts["model"]
        tokenizer = tokenizer_of(context)
        model = fresh_model(config, tokenizer) if source is None else loaded_package(source, config.model.config).model
        state = context.run.path / context.artefacts["train"].facts["checkpoint"] / "state.safetensors"
        files = tokenizer_files(context, model)
        if trains_adapter(config):
            export_adapter(context, adapted_model(config, model), StateValues(state), files)
        else:
            save_model(context.folder, model, StateValues(state), companions=source, files=files,
                       shard_bytes=config.export.max_shard_mb * MIB)
        if config.export.path:
            copy_whole(context.folder, Path(config.export.path))
        size = sum(path.stat().st_size for path in context.folder.iterdir())
        return {"mib": round(size / MIB, 2), "digest": hash_folder(context.folder)}


def copy_whole(source: Path, target: Path) -> None:
    """Copies a folder aside and renames it, so that there is never half of one."""
    partial = target.with_name(f".{target.name}.partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copytree(source, partial)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class StateValues(Mapping):
    """Parameters of a checkpoint by name, each read when it is asked for."""

    def __init__(self, path: Path):
        self.path = path

    def __getitem__(self, name: str) -> np.ndarray:
        from safetensors import safe_open

        with safe_open(self.path, framework="numpy") as file:
            return file.get_tensor(f"parameters/{name}")

    def __iter__(self) -> Iterator[str]:
        from safetensors import safe_open

        with safe_open(self.path, framework="numpy") as file:
            return iter([name.removeprefix("parameters/") for name in file.keys() if name.startswith("parameters/")])   # noqa: SIM118

    def __len__(self) -> int:
        return len(list(iter(self)))


def tokenizer_files(context: Context, model: Model) -> dict[str, str]:
    """Tokenizer files, the generation settings with the end tokens that were trained, and the model card."""
    folder = context.artefacts["tokenize"].folder / TOKENIZER
    files = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}
    stop = stop_ids(context)
    ids = {name: model.raw.get(name) for name in ("bos_token_id", "pad_token_id") if model.raw.get(name) is not None}
    files["README.md"] = model_card(context.config, context.run.manifest, trains_adapter(context.config), dict(model.raw))
    files["generation_config.json"] = json.dumps({**ids, "eos_token_id": stop[0] if len(stop) == 1 else stop}, indent=2) + "\n"
    return files


def stop_ids(context: Context) -> list[int]:
    """End tokens that the rows taught; the tokenizer's own where they taught none."""
    account = json.loads((context.artefacts["tokenize"].folder / "train.safetensors.json").read_text(encoding="utf-8"))
    return account.get("stop_ids") or [tokenizer_of(context).eos_id]
