"""Worker processes of joblib (loky): a worker for each job at work, so that a killed one takes no other along."""
from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from pipelines.config.launcher import LauncherConfig
from pipelines.sweeping.launchers.launcher import LOST, Polled, work_aside


def make(settings: LauncherConfig, folder: Path) -> Workers:
    return Workers()


class Workers:
    """Executors with one worker each; those that are free and whole are used again."""

    def __init__(self):
        self.free: list = []
        self.all: list = []

    def start(self, folder: Path, number: int, device: str) -> WorkerJob:
        from joblib.externals.loky import ProcessPoolExecutor

        executor = self.free.pop() if self.free else ProcessPoolExecutor(max_workers=1)
        self.all.append(executor)
        return WorkerJob(self, executor, executor.submit(told_pid, str(folder), number, device), folder / "jobs" / f"{number:04d}.pid")

    def close(self) -> None:
        for executor in self.all:
            executor.shutdown(wait=False, kill_workers=True)


def told_pid(folder: str, number: int, device: str) -> int:
    """The job, after its process has told who it is: so that it can be stopped."""
    from pipelines import exits

    path = Path(folder) / "jobs" / f"{number:04d}.pid"
    path.write_text(str(os.getpid()), encoding="utf-8")
    exits.stop_on_terminate()
    try:
        return work_aside(folder, number, device)
    finally:
        path.unlink(missing_ok=True)


class WorkerJob(Polled):
    """A job in a worker."""

    pause = 0.05

    def __init__(self, workers: Workers, executor: object, future: object, pid: Path):
        self.workers, self.executor, self.future, self.pid = workers, executor, future, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and self.future.done():
            lost = self.future.exception() is not None
            self.returncode = LOST if lost else self.future.result()
            if not lost:
                self.workers.free.append(self.executor)
        return self.returncode

    def send(self, number: int) -> None:
        with suppress(OSError, ValueError):
            os.kill(int(self.pid.read_text(encoding="utf-8")), number)

    def terminate(self) -> None:
        self.send(signal.SIGTERM)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
