"""A GGUF file written as a Hugging Face package, one tensor after the other."""
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.convert.gguf_config import config_of
from hierarchos.convert.gguf_file import GgufFile
from hierarchos.convert.gguf_tokenizer import tokenizer_files
from hierarchos.errors import UserError
from hierarchos.hub.write import SHARD_BYTES
from hierarchos.models.family import Model
from hierarchos.models.load import save_model
from hierarchos.models.registry import resolve

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Converted:
    """What was written. formats: how many tensors were stored in each."""

    folder: Path
    parameters: int
    formats: dict[str, int]


def opened(path: str | Path, changes: Mapping | None = None) -> tuple[Model, dict[str, str]]:
    """The model of a file and the files of its tokenizer, without reading a weight; raises UserError for what is not read.

    changes: fields of its configuration that are to be others."""
    file = GgufFile(path)
    model = resolve({**config_of(file), **(changes or {})}, str(file.path))
    GgufValues(file, model)
    return model, tokenizer_files(file)


def convert_gguf(path: str | Path, target: str | Path, shard_bytes: int = SHARD_BYTES) -> Converted:
    """Writes config.json, tokenizer and float32 tensors; raises UserError, before anything is written, for what is not read."""
    file = GgufFile(path)
    model = resolve(config_of(file), str(file.path))
    values, files = GgufValues(file, model), tokenizer_files(file)
    ends = {name: model.raw[name] for name in ("bos_token_id", "eos_token_id") if model.raw.get(name) is not None}
    save_model(target, model, values, files={**files, "generation_config.json": json.dumps(ends, indent=2) + "\n"}, shard_bytes=shard_bytes)
    kinds = [tensor.tensor_type.name for tensor in file.tensors.values()]
    return Converted(Path(target), model.size, {kind: kinds.count(kind) for kind in sorted(set(kinds))})


class GgufValues(Mapping):
    """Parameters of a model by name, out of a GGUF file: other names, Conv1D weights turned, rotary halves back in their places."""

    def __init__(self, file: GgufFile, model: Model):
        self.file, self.model = file, model
        self.shapes = {spec.name: spec.shape for spec in model.parameters}
        self.places = {name: self._place(name) for name in self.shapes}
        self._check()

    def _place(self, name: str) -> str:
        from gguf import MODEL_ARCH, get_tensor_name_map

        kind = self.file.value("general.architecture")
        arch = next(arch for arch in MODEL_ARCH if arch.name.lower() == kind)
        count = self.file.value(f"{kind}.block_count")
        return get_tensor_name_map(arch, count).get_name(name, (".weight", ".bias")) or name

    def _check(self) -> None:
        absent = [place for place in self.places.values() if place not in self.file.tensors]
        extra = [name for name in self.file.tensors if name not in self.places.values()]
        wrong = [name for name, place in self.places.items() if place in self.file.tensors
                 and sorted(self.file.shape(place)) != sorted(self.shapes[name])]
        if absent or wrong or extra:
            lines = [f"missing  {name}" for name in absent[:6]] + [f"unused   {name}" for name in extra[:6]]
            lines += [f"shape    {self.places[name]} is {list(self.file.shape(self.places[name]))}, not {list(self.shapes[name])}"
                      for name in wrong[:6]]
            raise UserError("the file does not fit its metadata", where=str(self.file.path), hint=lines, outcome="nothing was written")

    def __getitem__(self, name: str) -> np.ndarray:
        import numpy as np

        value = self.file.read(self.places[name])
        if self.model.family.model_type == "gpt2" and value.ndim == 2 and name.startswith("transformer.h."):
            return np.ascontiguousarray(value.T)
        if self.model.family.model_type == "llama" and (".q_proj." in name or ".k_proj." in name):
            heads = self.model.config.heads
            return halves_apart(value, heads.queries if ".q_proj." in name else heads.keys)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


def halves_apart(value: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from pairs (0, 1, 2, 3, ...) to halves (0, 2, ..., 1, 3, ...): GGUF rotates neighbours, packages rotate halves."""
    import numpy as np

    rows = value.shape[0] // heads
    return np.ascontiguousarray(value.reshape(heads, rows // 2, 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape))
