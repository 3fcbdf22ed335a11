"""Carrying out one job: left out where it is done, continued where it was interrupted, tried again where it failed."""
from __future__ import annotations

import traceback
from pathlib import Path

from hierarchos.errors import UserError
from pipelines import execute, exits
from pipelines import resume as resuming
from pipelines.files import write_text
from pipelines.run_directory import RunDirectory, read_manifest, runs, status_of
from pipelines.runner import StageFailed
from pipelines.sweeping.rows import Outcome, row_of

PRUNED = "ended early"
RETRIED = (exits.FAILED, exits.DEVICE)          # wrong input stays wrong


class Pruned(KeyboardInterrupt):
    """A search ends a job that lags behind; what it has done is kept as an interrupted run's is."""


def run_job(job: execute.Job, folder: Path, number: int) -> dict:
    """Runs a job and returns its row; failures are one line on the screen and a traceback in the job's log."""
    words = " ".join(job.words)
    outcome = already(job) if not job.config.sweep.again else None
    if outcome is not None:
        job.progress.line(f"job {number}: {words}: {outcome.status}, in {outcome.path}")
        return row_of(outcome, job.words, number)
    earlier = None if job.config.sweep.again else unfinished(job)
    for attempt in range(1, job.config.sweep.retries + 2):
        if earlier is not None:
            job.earlier = resuming.Earlier(earlier, [], {})
        job.progress.line(f"job {number}: {words}" + (f" (continues {earlier})" if earlier else ""))
        outcome = carry_out(job, folder, number, attempt)
        if outcome.exit not in RETRIED:
            break
        earlier = outcome.path
    return row_of(outcome, job.words, number)


def already(job: execute.Job) -> Outcome | None:
    """A job that needs nothing: done before, or at work in another process."""
    same = same_job(job)
    if done := [path for path in same if status_of(path) == "done"]:
        return Outcome("done before", exits.DONE, done[-1])
    if going := [path for path in same if status_of(path) == "running"]:
        return Outcome("runs in another process", exits.DONE, going[-1])
    return None


def unfinished(job: execute.Job) -> Path | None:
    """The newest run of this job that can be continued."""
    found = [path for path in same_job(job) if status_of(path) in ("interrupted", "failed")]
    return found[-1] if found else None


def same_job(job: execute.Job) -> list[Path]:
    """Run directories of this job, oldest first."""
    return [path for path in runs(job.outputs, job.config.pipeline.name) if read_manifest(path).get("job") == job.known_as]


def carry_out(job: execute.Job, folder: Path, number: int, attempt: int = 1) -> Outcome:
    """One try; every way it can fail becomes an outcome."""
    try:
        return Outcome("done", exits.DONE, execute.run(job, sweep=folder.name).path, attempt)
    except StageFailed as failed:
        first = exits.stage_message(failed).splitlines()[0]
        job.progress.line(f"job {number} failed: {first}; log: {failed.log}")
        return Outcome(f"failed: {first}", exits.status_of(failed.error), failed.log.parents[2], attempt)
    except Pruned as found:
        job.progress.line(f"job {number}: {found}")
        directory = RunDirectory(job.directory, read_manifest(job.directory))
        directory.save(status="pruned")
        return Outcome(PRUNED, exits.DONE, job.directory, attempt)
    except KeyboardInterrupt:
        return Outcome("interrupted", exits.INTERRUPTED, None, attempt)
    except UserError as error:                    # a directory that cannot be made
        job.progress.line(f"job {number} failed: {error}")
        return Outcome(f"failed: {error.what}", exits.WRONG_INPUT, None, attempt)
    except Exception as error:
        log = folder / "jobs" / f"{number:04d}.log"
        write_text(log, "".join(traceback.format_exception(error)))
        job.progress.line(f"job {number} failed: {type(error).__name__}: {error}; log: {log}")
        return Outcome(f"failed: {type(error).__name__}: {error}", exits.FAILED, None, attempt)


def refused_row(error: UserError, words: list[str], number: int) -> dict:
    """The row of a job that could not start."""
    from pipelines.progress import Progress

    Progress().line(f"job {number} failed: {error}")
    return row_of(Outcome(f"failed: {error.what}", exits.WRONG_INPUT, None), words, number)
