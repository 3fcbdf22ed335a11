"""Where figures of a run are also sent while it goes on. Nothing is, unless it is asked for."""
from __future__ import annotations

from dataclasses import dataclass

from pipelines.config.setting import setting


@dataclass(frozen=True)
class TrackerConfig:
    """A tracker of experiments: `tracker=tensorboard`, `tracker=mlflow` or `tracker=trackio` (docs/trackers.md). Changes no result."""

    name: str = setting("none", choices=("none", "tensorboard", "mlflow", "trackio"), planned=("wandb", "comet", "aim"))
    """Which one; each is a package of its own that has to be installed. All of them write into a folder of this machine."""

    folder: str | None = setting(None, path=True)
    """Folder of its files, one for all runs; null: the folder `tracker/NAME` in run.outputs."""

    project: str = setting("hierarchos")
    """The experiment (MLflow) or project (Trackio) that runs belong to."""
