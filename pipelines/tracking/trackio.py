"""Trackio on this machine: its files in FOLDER; look with `TRACKIO_DIR=FOLDER trackio show`."""
from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.run_directory import RunDirectory


def start(config: Config, run: RunDirectory, folder: Path) -> TrackioRun:
    """A run of the project; a resumed one goes on in its own."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TRACKIO_DIR"] = str(folder)                  # read by Trackio when it is imported
    import trackio

    from pipelines.hashing import flatten
    from pipelines.settings.resolve import as_dict

    values = {key: value if isinstance(value, (int, float, str, bool)) else str(value) for key, value in flatten(as_dict(config)).items()}
    trackio.init(project=config.tracker.project, name=run.path.name, config=values, resume="allow", embed=False)
    return TrackioRun(trackio)


class TrackioRun:
    """One run."""

    def __init__(self, trackio: object):
        self.trackio, self.step = trackio, 0

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self.step = max(step, self.step)
        self.trackio.log(dict(figures), step=step)

    def end(self, status: str, results: Mapping[str, float]) -> None:
        self.trackio.log({**results, "status": status}, step=self.step)
        self.trackio.finish()
