"""Several jobs at a time, each in a process of its own, spread over the devices of `sweep.devices`."""
from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hierarchos.errors import UserError
from pipelines import exits
from pipelines.progress import Progress
from pipelines.sweeping.jobs import SweepJob
from pipelines.sweeping.launchers.launcher import Launcher, Started
from pipelines.sweeping.launchers.processes import Processes
from pipelines.sweeping.rows import Outcome, drop_row, read_row, row_of, save_row, table_of

POLL_SECONDS = 0.05
PATIENCE_SECONDS = 20.0          # for jobs that are asked to stop


@dataclass
class Working:
    """A job that runs: its process and its device."""

    job: SweepJob
    process: Started
    device: str


@dataclass
class Pool:
    """slots: a device for each job that may run at once (a device may stand there several times)."""

    folder: Path
    jobs: Sequence[SweepJob]
    slots: Sequence[str]
    fail_fast: bool
    retries: int = 0
    swept: Sequence[str] = ()
    launcher: Launcher = field(default_factory=Processes)
    progress: Progress = field(default_factory=Progress)
    working: list[Working] = field(default_factory=list)
    killed_jobs: Counter[int] = field(default_factory=Counter)

    def run(self) -> None:
        """Runs all jobs; raises KeyboardInterrupt, or UserError of the launcher, once the jobs at work have stopped and kept steps."""
        waiting, free = list(self.jobs), list(self.slots)
        with LiveTable(self) as table:
            try:
                while waiting or self.working:
                    while waiting and free:
                        self.working.append(self.start(waiting.pop(0), free.pop(0)))
                    failed = self.collect(free, waiting)
                    if failed and self.fail_fast:
                        waiting = []
                    table.show()
                    time.sleep(POLL_SECONDS)
            except (KeyboardInterrupt, UserError):           # UserError: the launcher takes no more jobs
                self.stop()
                raise
            finally:
                self.launcher.close()

    def start(self, job: SweepJob, device: str) -> Working:
        """Starts a job; all that it says goes into its log."""
        return Working(job, self.launcher.start(self.folder, job.number, device), device)

    def collect(self, free: list[str], waiting: list[SweepJob]) -> bool:
        """Takes in the jobs that have ended, and their devices; whether one of them failed. One that was stopped waits again, if it may."""
        ended = [one for one in self.working if one.process.poll() is not None]
        for one in ended:
            self.working.remove(one)
            free.append(one.device)
            row = read_row(self.folder, one.job.number)
            if (row is None or row["exit"] == exits.INTERRUPTED) and self.may_try_again(one, row):
                waiting.append(one.job)
                ended = [other for other in ended if other is not one]
            else:
                self.tell(one, row or self.killed(one))
        return any(one.process.returncode not in (exits.DONE, exits.INTERRUPTED) for one in ended)

    def may_try_again(self, one: Working, row: dict | None) -> bool:
        """Whether a job whose process was killed, or that others than this pool stopped, is started again, from its last checkpoint."""
        self.killed_jobs[one.job.number] += 1
        if self.killed_jobs[one.job.number] > self.retries:
            return False
        drop_row(self.folder, one.job.number)
        how = "its process was killed" if row is None else "it was stopped from outside"
        self.progress.line(f"job {one.job.number}: {how}; it is started again")
        return True

    def killed(self, one: Working) -> dict:
        """The row of a job whose process ended without a word."""
        code = one.process.returncode
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"its process ended with status {code}"
        row = row_of(Outcome(f"failed: {how}", exits.FAILED, None), one.job.words, one.job.number)
        save_row(self.folder, row)
        return row

    def tell(self, one: Working, row: dict) -> None:
        """One line about a job that has ended."""
        log = "" if row["exit"] == exits.DONE else f"; log: {self.folder / 'jobs' / f'{one.job.number:04d}.log'}"
        self.progress.line(f"job {one.job.number}: {' '.join(one.job.words)}: {row['status']} on {one.device}{log}")

    def stop(self) -> None:
        """Asks all jobs to stop, and waits until they have written down how far they came."""
        for one in self.working:
            one.process.terminate()
        until = time.monotonic() + PATIENCE_SECONDS
        for one in self.working:
            try:
                one.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.process.kill()


class LiveTable:
    """On a terminal: a table of all jobs that is drawn anew while they run. Elsewhere nothing: each job has its line."""

    def __init__(self, pool: Pool):
        self.pool, self.live = pool, None

    def __enter__(self) -> LiveTable:
        if self.pool.progress.terminal:
            from rich.live import Live

            self.live = Live(refresh_per_second=4, transient=True)
            self.live.start()
        return self

    def show(self) -> None:
        if self.live is not None:
            self.live.update(self.table())

    def table(self) -> object:
        """The rows of jobs that have ended, and those at work."""
        from rich.table import Table

        pool = self.pool
        busy = {one.job.number: f"running on {one.device}" for one in pool.working}
        rows = [read_row(pool.folder, job.number) or row_of(Outcome(busy.get(job.number, "waiting"), 0, None), job.words, job.number)
                for job in pool.jobs]
        headings, lines = table_of(rows, pool.swept)
        table = Table(*headings)
        for line in lines:
            table.add_row(*line)
        return table

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()
