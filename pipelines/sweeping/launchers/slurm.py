"""Slurm: what has become of a job is read from its result and from `squeue`.

submitit itself asks `sacct`, hence the accounting database: many clusters have none, and then a job that was killed would be
waited for forever."""
from __future__ import annotations

import os
import subprocess
import time

from pipelines.progress import Progress
from pipelines.sweeping.launchers.launcher import LOST, Polled

ASK_SECONDS = 2.0                # between two questions to Slurm
ANSWER_SECONDS = 60.0            # a busy controller
RESULT_SECONDS = 15.0            # a shared file system may show a result late


class Queue:
    """The jobs of this user that Slurm still has, asked for all at once."""

    def __init__(self):
        self.asked, self.held, self.silent = float("-inf"), set(), False

    def job(self, job: object) -> SlurmJob:
        """A job that submitit has handed over."""
        return SlurmJob(job, self)

    def holds(self, name: str, since: float) -> bool:
        """Whether job `name`, handed over at `since`, waits, runs or ends; also as long as Slurm does not answer."""
        if time.monotonic() - self.asked > ASK_SECONDS:
            self.ask()
        return self.asked < since or name in self.held

    def ask(self) -> None:
        """Reads the queue; that Slurm does not answer is told once."""
        begun, reason = time.monotonic(), f"no answer within {ANSWER_SECONDS:.0f} s"
        try:
            done = subprocess.run(["squeue", "--noheader", "--format=%i", f"--user={os.getuid()}"], capture_output=True, text=True,
                                  timeout=ANSWER_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            done = None
        if done is not None and done.returncode == 0:
            self.asked, self.held, self.silent = begun, set(done.stdout.split()), False
            return
        if not self.silent:
            told = done.stderr.strip().splitlines() if done is not None else []
            Progress().line(f"Slurm does not say how its jobs are ({told[-1] if told else reason}); it is asked again")
        self.silent = True


class SlurmJob(Polled):
    """A job of Slurm."""

    pause = 0.2

    def __init__(self, job: object, queue: Queue):
        self.job, self.queue, self.returncode = job, queue, None
        self.since, self.gone = time.monotonic(), None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.status()
            if self.returncode not in (None, 0):
                self.call("scancel")               # Slurm might start a job again that it stopped; the pool does that
        return self.returncode

    def status(self) -> int | None:
        """The status that the job left; LOST where it has left Slurm without one; None while it has not ended."""
        if self.job.paths.result_pickle.exists():
            try:
                return self.job.result()
            except Exception:                      # what was raised outside of the job's own work
                return LOST
        if self.queue.holds(self.job.job_id, self.since):
            self.gone = None
            return None
        self.gone = self.gone or time.monotonic()
        return LOST if time.monotonic() - self.gone > RESULT_SECONDS else None

    def terminate(self) -> None:
        self.call("scancel")

    def kill(self) -> None:
        self.call("scancel", "--signal=KILL")

    def call(self, *command: str) -> None:
        subprocess.run([*command, self.job.job_id], capture_output=True, check=False)
