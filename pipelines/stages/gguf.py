"""A GGUF file as model.path: looked at like a package before a run, and made one in the cache where a run needs it."""
from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.hashing import hash_file

if TYPE_CHECKING:
    from hierarchos.data.tokenizer import TextTokenizer
    from hierarchos.models.family import Model
    from pipelines.config import Config

CACHED = "cache/gguf"           # below run.outputs: packages by the hash of their file


def is_gguf(path: str | Path | None) -> bool:
    """Whether model.path names such a file, by its ending; what is in it is looked at later."""
    return path is not None and str(path).lower().endswith(".gguf") and Path(path).is_file()


def looked_at(config: Config) -> tuple[Model, TextTokenizer]:
    """The model and tokenizer of the file, without reading a weight; UserError for what is not read."""
    from hierarchos.convert.gguf_package import opened
    from hierarchos.data.tokenizer import load_tokenizer

    model, files = opened(config.model.path, config.model.config)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_text(content, encoding="utf-8")
        return model, load_tokenizer(folder)


def package_of(config: Config) -> Path:
    """The package made of the file, kept by the file's content; written where there is none yet."""
    from hierarchos.convert.gguf_package import convert_gguf

    folder = Path(config.run.outputs) / CACHED / hash_file(Path(config.model.path))[:24]
    if not (folder / "config.json").is_file():
        convert_gguf(config.model.path, folder)
    return folder
