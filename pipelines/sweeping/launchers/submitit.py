"""submitit: jobs as processes of this machine, or of Slurm (pipelines/sweeping/launchers/slurm.py)."""
from __future__ import annotations

import shutil
import signal
from pathlib import Path

from hierarchos.errors import UserError
from pipelines import exits
from pipelines.config.launcher import LauncherConfig
from pipelines.sweeping.launchers.launcher import LOST, Polled, work_aside
from pipelines.sweeping.launchers.slurm import Queue


def make(settings: LauncherConfig, folder: Path) -> Submitted:
    """UserError where there is no Slurm, or where submitit does not know an option."""
    import submitit

    on_slurm = settings.cluster == "slurm"
    if on_slurm and shutil.which("srun") is None:
        raise UserError("there is no Slurm on this machine: srun is not found", where="launcher.cluster", command="launcher.cluster=local")
    executor = submitit.AutoExecutor(folder=folder / "submitit", cluster=settings.cluster)
    try:
        executor.update_parameters(name="hierarchos", **settings.options)
    except (NameError, TypeError, AssertionError) as error:
        raise UserError(f"submitit does not take these options: {error}".splitlines()[0], where="launcher.options") from None
    return Submitted(executor, Queue() if on_slurm else None)


class Submitted:
    """Hands jobs over; queue: of Slurm."""

    def __init__(self, executor: object, queue: Queue | None):
        self.executor, self.queue = executor, queue

    def start(self, folder: Path, number: int, device: str) -> SubmittedJob:
        """UserError where Slurm refuses the job."""
        from submitit.core.utils import FailedJobError

        try:
            job = self.executor.submit(work_until_told, str(folder.resolve()), number, device)
        except FailedJobError as error:
            raise UserError(f"Slurm does not take a job: {reason_of(error)}", where="launcher.options", outcome=None,
                            hint="what was done before is kept; the same command goes on with the rest") from None
        return SubmittedJob(job) if self.queue is None else self.queue.job(job)

    def close(self) -> None:
        """Jobs have ended, or go on where they are."""


def reason_of(error: Exception) -> str:
    """The first thing that sbatch complains about."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    complaint = next((line for line in lines if line.startswith("sbatch: error:")), lines[-1] if lines else type(error).__name__)
    return complaint.removeprefix("sbatch: error: ").removeprefix("Batch job submission failed: ")


def work_until_told(folder: str, number: int, device: str) -> int:
    """The job. SIGTERM, and what submitit announces time limits and preemptions with, stop it as Ctrl-C does: its last step is kept.

    submitit's own handlers would ignore the one and end the other with an error."""
    import submitit

    announced = getattr(signal, f"SIG{submitit.JobEnvironment.USR_SIG}")
    exits.stop_on_terminate(announced)
    return work_aside(folder, number, device)


class SubmittedJob(Polled):
    """A job of submitit."""

    pause = 0.2

    def __init__(self, job: object):
        self.job, self.returncode = job, None

    def poll(self) -> int | None:
        if self.returncode is None and self.job.done():
            self.returncode = self.result()
        return self.returncode

    def result(self) -> int:
        """The status that the job left."""
        try:
            return self.job.result()
        except Exception:                          # killed, or it ran out of its time
            return LOST

    def terminate(self) -> None:
        self.job.cancel(check=False)

    def kill(self) -> None:
        self.job.cancel(check=False)
