"""A local store of MLflow: FOLDER/mlflow.db; look with `mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db`."""
from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.run_directory import RunDirectory

STATUS = {"done": "FINISHED", "interrupted": "KILLED"}
LONGEST = 6000                     # characters of a value that MLflow keeps
AT_ONCE = 100                      # settings that it takes in one call
RUN_ID = "mlflow"                  # in run.json: the run's name there, so that a resumed run goes on in it


def start(config: Config, run: RunDirectory, folder: Path) -> MlflowRun:
    """A new run of the experiment, or that of the run that is resumed."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"          # read by MLflow when it is imported
    from mlflow.entities import Param
    from mlflow.tracking import MlflowClient

    from pipelines.hashing import flatten
    from pipelines.settings.resolve import as_dict

    folder.mkdir(parents=True, exist_ok=True)
    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
    if earlier := run.manifest.get("tracked", {}).get(RUN_ID):
        client.update_run(earlier, status="RUNNING")
        return MlflowRun(client, earlier)
    found = client.get_experiment_by_name(config.tracker.project)
    experiment = found.experiment_id if found else client.create_experiment(config.tracker.project, str(folder / "artifacts"))
    tags = {"pipeline": config.pipeline.name, "run": str(run.path.resolve())}
    made = client.create_run(experiment, run_name=run.path.name, tags=tags).info.run_id
    values = [Param(key, str(value)[:LONGEST]) for key, value in flatten(as_dict(config)).items()]
    for first in range(0, len(values), AT_ONCE):
        client.log_batch(made, params=values[first:first + AT_ONCE])
    run.save(tracked={RUN_ID: made})
    return MlflowRun(client, made)


class MlflowRun:
    """One run; figures are handed over in groups, since each call is a transaction."""

    def __init__(self, client: object, run_id: str):
        self.client, self.run_id, self.waiting, self.step, self.last = client, run_id, [], 0, time.monotonic()

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now, self.step = int(time.time() * 1000), max(step, self.step)
        self.waiting += [Metric(name, value, now, step) for name, value in figures.items()]
        if len(self.waiting) >= 200 or time.monotonic() - self.last > 5:
            self.hand_over()

    def hand_over(self) -> None:
        self.client.log_batch(self.run_id, metrics=self.waiting)
        self.waiting, self.last = [], time.monotonic()

    def end(self, status: str, results: Mapping[str, float]) -> None:
        self.log(self.step, results)
        self.hand_over()
        self.client.set_terminated(self.run_id, STATUS.get(status, "FAILED"))
