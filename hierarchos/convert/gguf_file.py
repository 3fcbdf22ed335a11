"""A GGUF file: metadata, and tensors as float32. The `gguf` package reads the container and knows the formats."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierarchos.errors import UserError

if TYPE_CHECKING:
    import numpy as np

FORMATS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")


class GgufFile:
    """The tensors and metadata of one file; raises UserError for files that are none and for formats that are not read."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        reader = _reader(self.path)
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.fields = reader.fields
        refused = {tensor.tensor_type.name for tensor in reader.tensors} - set(FORMATS)
        if refused:
            names = [name for name, tensor in self.tensors.items() if tensor.tensor_type.name in refused]
            raise UserError(f"{names[0]} is stored as {self.tensors[names[0]].tensor_type.name}", where=str(self.path),
                            hint=[f"{len(names)} tensors are in formats that are not read: {', '.join(sorted(refused))}",
                                  f"those that are: {', '.join(FORMATS)}"], outcome="nothing was written")

    def value(self, key: str, default: Any = None) -> Any:
        """A metadata value: a number, text or list."""
        field = self.fields.get(key)
        return default if field is None else field.contents()

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(int(extent) for extent in reversed(self.tensors[name].shape))

    def read(self, name: str) -> np.ndarray:
        """float32 values, rows first as in a package."""
        import numpy as np
        from gguf.quants import dequantize

        tensor = self.tensors[name]
        return np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), np.float32).reshape(self.shape(name))


def _reader(path: Path):
    try:
        from gguf import GGUFReader
    except ImportError:
        raise UserError("reading GGUF files needs the package gguf", where=str(path), command='pip install "hierarchos[gguf]"') from None
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", where="model.path") from None
    if magic != b"GGUF":
        raise UserError(f"{path.name} is no GGUF file: it begins with {magic!r}", where=str(path))
    try:
        return GGUFReader(path)
    except (ValueError, IndexError, KeyError) as error:                        # whatever the package trips over first
        raise UserError(f"{path.name} is damaged or cut short", where=str(path), hint="download it again") from error
