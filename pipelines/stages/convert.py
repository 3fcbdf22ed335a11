"""Writes a model of another container as a Hugging Face package."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.hashing import hash_file, hash_folder
from pipelines.stages.base import BaseStage
from pipelines.stages.checks import check_new_folder, check_path

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.stage import Context

MIB = 1 << 20


class Convert(BaseStage):
    """Facts: `parameters`, how many tensors were in which format, `folder`."""

    name = "convert"
    groups = ("model", "export")
    modules = ("hierarchos.convert", "hierarchos.hub", "hierarchos.models")

    def check(self, config: Config) -> None:
        """The file is there and can be read, and the place is new."""
        from hierarchos.convert.gguf_package import opened

        if not config.model.path:
            raise UserError("model.path has to be given", where="needed by convert", command="model.path=FILE.gguf")
        check_path(config.model.path, "model.path")
        if Path(config.model.path).is_dir():
            raise UserError(f"{config.model.path} is a folder", where="model.path", hint="hierarchos convert reads one GGUF file")
        opened(config.model.path)
        if config.export.path:
            check_new_folder(config.export.path, "export.path")

    def key(self, context: Context) -> dict:
        return super().key(context) | {"file": hash_file(Path(context.config.model.path))}

    def folder_in(self, run: Path, default: Path) -> Path:
        """The package's place, where export.path names none."""
        return run / "model"

    def run(self, context: Context) -> dict:
        """One tensor after the other."""
        from hierarchos.convert.gguf_package import convert_gguf

        config = context.config
        target = Path(config.export.path) if config.export.path else context.folder
        made = convert_gguf(config.model.path, target, config.export.max_shard_mb * MIB)
        formats = ", ".join(f"{count} {kind}" for kind, count in made.formats.items())
        context.progress.line(f"convert: {made.parameters:,} parameters of {formats} as float32 in {target}")
        return {"parameters": made.parameters, "formats": formats, "folder": str(target), "digest": hash_folder(target)}
