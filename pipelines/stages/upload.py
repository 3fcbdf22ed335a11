"""Puts the package of this run, or the one that is given, on the Hub. No pipeline that trains has this stage by itself."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.stages.base import BaseStage

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.stage import Context


class Upload(BaseStage):
    """Facts: `repo`, `commit` and `address` on the Hub."""

    name = "upload"
    groups = ("export",)
    inputs = ("acquire", "export?", "merge?")
    modules = ("hierarchos.hub",)

    def check(self, config: Config) -> None:
        """A repository, and what it takes to write there, before anything starts."""
        from hierarchos.hub.upload import check_can_upload

        if config.export.repo is None:
            raise UserError("export.repo has to be given", where="needed by upload", command="export.repo=OWNER/NAME")
        check_can_upload(config.export.repo)

    def run(self, context: Context) -> dict:
        """One commit with all files of the package."""
        from hierarchos.hub.upload import upload

        settings = context.config.export
        folder = package_folder(context)
        made = upload(folder, settings.repo, settings.private, settings.branch, f"Upload {context.run.path.name}")
        context.progress.line(f"upload: {made.address}" + ("  (a new repository is private)" if settings.private else ""))
        return {"repo": settings.repo, "commit": made.commit, "address": made.address, "digest": made.commit}


def package_folder(context: Context) -> Path:
    """What the run has written, or the package that it was given."""
    if (merged := context.latest("merge")) is not None:
        return Path(merged.facts["folder"])
    exported = context.latest("export")
    return exported.folder if exported is not None else Path(context.artefacts["acquire"].facts["model"])
