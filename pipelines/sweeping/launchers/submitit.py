"""submitit: jobs as processes of this machine, or of Slurm."""
from __future__ import annotations

import shutil
from pathlib import Path

from hierarchos.errors import UserError
from pipelines.config.launcher import LauncherConfig
from pipelines.sweeping.launchers.launcher import LOST, Polled, work_aside


def make(settings: LauncherConfig, folder: Path) -> Submitted:
    """UserError where there is no Slurm, or where submitit does not know an option."""
    import submitit

    if settings.cluster == "slurm" and shutil.which("srun") is None:
        raise UserError("there is no Slurm on this machine: srun is not found", where="launcher.cluster", command="launcher.cluster=local")
    executor = submitit.AutoExecutor(folder=folder / "submitit", cluster=settings.cluster)
    try:
        executor.update_parameters(name="hierarchos", **settings.options)
    except (NameError, TypeError, AssertionError) as error:
        raise UserError(f"submitit does not take these options: {error}".splitlines()[0], where="launcher.options") from None
    return Submitted(executor)


class Submitted:
    """Hands jobs over."""

    def __init__(self, executor: object):
        self.executor = executor

    def start(self, folder: Path, number: int, device: str) -> SubmittedJob:
        return SubmittedJob(self.executor.submit(work_aside, str(folder.resolve()), number, device))

    def close(self) -> None:
        """Jobs have ended, or go on where they are."""


class SubmittedJob(Polled):
    """A job of submitit."""

    pause = 0.2

    def __init__(self, job: object):
        self.job, self.returncode = job, None

    def poll(self) -> int | None:
        if self.returncode is None and self.job.done():
            try:
                self.returncode = self.job.result()
            except Exception:                      # killed, or it ran out of its time
                self.returncode = LOST
        return self.returncode

    def terminate(self) -> None:
        self.job.cancel()

    def kill(self) -> None:
        self.job.cancel()
