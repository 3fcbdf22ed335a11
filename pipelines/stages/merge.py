"""Puts an adapter into the weights of its base, or takes it out again; the written package computes what the two did."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.hashing import hash_folder
from pipelines.stages.base import BaseStage
from pipelines.stages.checks import check_new_folder

if TYPE_CHECKING:
    from hierarchos.peft.merge import Merged
    from pipelines.config import Config
    from pipelines.stage import Context

MIB = 1 << 20


class Merge(BaseStage):
    """Facts: `changed` parameters, `difference` of the logits and the largest of them, `folder`, whether the head is `tied`."""

    name = "merge"
    groups = ("model", "peft", "export")
    inputs = ("acquire",)
    modules = ("hierarchos",)
    uses_device = True

    def check(self, config: Config) -> None:
        """An adapter has to be named, and the place must be new."""
        if not config.peft.path:
            raise UserError("peft.path has to be given", where=f"needed by {self.name}", command="peft.path=ADAPTER")
        if config.export.path:
            check_new_folder(config.export.path, "export.path")

    def folder_in(self, run: Path, default: Path) -> Path:
        """The package's place, where export.path names none."""
        return run / "model"

    def run(self, context: Context) -> dict:
        """Writes aside, compares logits, then publishes."""
        config, source = context.config, context.artefacts["acquire"].facts["model"]
        target = Path(config.export.path) if config.export.path else context.folder
        if target.is_dir():
            target.rmdir()                             # made by the runner, empty
        made = self.make(source, config.peft.path, target, context.device, config.export.max_shard_mb * MIB)
        context.progress.line(f"{self.name}: {made.changed} parameters changed; logits differ by {made.difference:.2g} at most "
                              f"(the largest is {made.largest:.3g})")
        context.folder.mkdir(exist_ok=True)
        return {"changed": made.changed, "difference": made.difference, "largest_logit": made.largest, "tied": made.tied,
                "folder": str(target), "digest": hash_folder(target)}

    def make(self, *arguments) -> Merged:
        """base, adapter, target, device, shard bytes."""
        from hierarchos.peft.merge import merge_adapter

        base, adapter, target, device, shard_bytes = arguments
        return merge_adapter(base, adapter, target, device=device, shard_bytes=shard_bytes)


class Unmerge(Merge):
    """As `Merge`; the package that is given is the merged one."""

    name = "unmerge"

    def make(self, *arguments) -> Merged:
        from hierarchos.peft.merge import unmerge_adapter

        merged, adapter, target, device, shard_bytes = arguments
        return unmerge_adapter(merged, adapter, target, device=device, shard_bytes=shard_bytes)
