"""Many runs from one command line: a grid of our own, or Hydra's sweepers and launchers where one is named.

A job is known by the hash of its settings: issued again, a sweep leaves out what is done and continues what was
interrupted. One job's failure is written into its own log at once, with one line on the screen; the others go on.
"""
from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines import execute, exits
from pipelines.config.run import SweepConfig
from pipelines.progress import Progress, duration
from pipelines.run_directory import unique_folder
from pipelines.settings.compose import Request, check_request
from pipelines.settings.folders import Folders
from pipelines.sweeping import search
from pipelines.sweeping.jobs import SweepJob, expand, freeze, make_jobs
from pipelines.sweeping.launchers.launcher import check_launcher
from pipelines.sweeping.one import refused_row, run_job
from pipelines.sweeping.rows import print_table, read_rows, save_row

if TYPE_CHECKING:
    from pipelines.sweeping.pool import Pool


class StopSweep(BaseException):
    """Ends a sweep at a failed job; not an Exception, so that Hydra's launchers let it pass."""


def sweep(pipeline: str, words: list[str], folders: Folders) -> int:
    """Checks every job, runs them, prints a table; the status is that of the worst job."""
    request = check_request(pipeline, words, folders, multirun=True)
    refuse_single_run_words(request)
    foreign = uses_hydra(request)
    if not request.sweeps and not foreign:
        raise UserError("-m without a setting that has several values", where="command line", command="train.learning_rate=1e-3,3e-4")
    if foreign:
        check_plugins(request)
    jobs = make_jobs(request)
    check_launcher(jobs[0].config.launcher)
    space = None if foreign else search.check_search(request, jobs[0].config)
    folder = unique_folder(Path(jobs[0].config.run.outputs) / "sweeps")
    pool = None if foreign or space is not None else pool_of(jobs, folder, request.sweeps)
    Progress().line(f"sweep: {folder}")
    begun, interrupted = time.monotonic(), False
    try:
        if foreign:
            run_with_hydra(request, folder)
        else:
            if space is not None:
                search.Search(request, space, jobs[0].config, folder).run()
            else:
                freeze(folder, jobs, words, request.sweeps)
                pool.run() if pool is not None else run_jobs(jobs, folder)
    except StopSweep:
        pass
    except UserError:                             # a launcher that takes no job
        if not read_rows(folder):
            shutil.rmtree(folder)
        raise
    except KeyboardInterrupt:
        interrupted = True
    rows = read_rows(folder)
    print_table(rows, list(request.sweeps), duration(time.monotonic() - begun))
    if interrupted:
        raise KeyboardInterrupt("interrupted; the same command again continues the sweep")
    return max((row["exit"] for row in rows), default=exits.DONE)


def pool_of(jobs: Sequence[SweepJob], folder: Path, swept: Sequence[str]) -> Pool | None:
    """What runs several jobs at once, None where they come one after the other; a launcher that refuses leaves no folder."""
    config = jobs[0].config
    settings, slots = config.sweep, slots_of(config.sweep, config.device.select)
    if len(slots) == 1 and not settings.devices and config.launcher.name == "processes":
        return None
    from pipelines.sweeping.launchers.launcher import make_launcher
    from pipelines.sweeping.pool import Pool

    try:
        launcher = make_launcher(config.launcher, folder)
    except UserError:
        shutil.rmtree(folder)
        raise
    return Pool(folder, jobs, slots, settings.fail_fast, settings.retries, swept, launcher)


def run_jobs(jobs: Sequence[SweepJob], folder: Path) -> None:
    """One after the other in this process."""
    for job in jobs:
        row = run_job(job.prepare(), folder, job.number)
        save_row(folder, row)
        stop_at(row, job.config.sweep.fail_fast)


def slots_of(settings: SweepConfig, device: str) -> list[str]:
    """A device for each job that may run at once."""
    devices = [str(name) for name in settings.devices] or [device]
    return devices * settings.jobs_per_device


def stop_at(row: dict, fail_fast: bool) -> None:
    """Ends the sweep where a job says so."""
    if row["exit"] == exits.INTERRUPTED:
        raise KeyboardInterrupt
    if row["exit"] != exits.DONE and fail_fast:
        raise StopSweep


def look(pipeline: str, words: list[str], folders: Folders) -> int:
    """Checks every job and lists them; runs nothing, creates nothing."""
    request = check_request(pipeline, words, folders, multirun=True)
    refuse_single_run_words(request)
    make_jobs(request)
    for number, job_words in enumerate(expand(request)):
        print(f"job {number}: {' '.join(job_words)}")
    return exits.DONE


def refuse_single_run_words(request: Request) -> None:
    """Settings that mean one run."""
    for key, hint in (("run.dir", "every job has a directory of its own; give run.outputs"),
                      ("run.resume", "the same command again continues a sweep")):
        if any(override.startswith(f"{key}=") for override in request.overrides):
            raise UserError(f"{key} cannot be used with -m", where="command line", hint=hint)


def uses_hydra(request: Request) -> bool:
    """Whether a sweeper or launcher of Hydra is named, on the command line or in a file."""
    if any(override.startswith(("hydra/sweeper", "hydra/launcher", "hydra.sweeper", "hydra.launcher")) for override in request.overrides):
        return True
    chosen = [request.folders.file(f"experiment/{word.partition('=')[2]}") for word in request.overrides if word.startswith("experiment=")]
    return any("hydra" in path.read_text(encoding="utf-8") for path in chosen if path is not None)


def check_plugins(request: Request) -> None:
    """A launcher or sweeper that is not installed is told before anything starts."""
    from hydra.types import RunMode

    from pipelines.settings.compose import hydra_for, load

    load(hydra_for(request.folders), request.all_overrides, RunMode.MULTIRUN)


def run_with_hydra(request: Request, folder: Path) -> None:
    """Hydra's multirun, with `job` for each of its jobs."""
    from pipelines.settings.compose import ROOT, hydra_for

    arguments = [*request.all_overrides, f"hydra.sweep.dir={folder}", "hydra.sweep.subdir=."]
    hydra_for(request.folders).multirun(ROOT, job, arguments, with_log_configuration=False)


def job(composed: object) -> dict:
    """One job, as Hydra's launcher calls it; also in another process. Returns its row of the table."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    hydra = HydraConfig.get()
    folder, number = Path(hydra.sweep.dir), int(hydra.job.num)
    words = [word for word in OmegaConf.to_container(hydra.overrides.task) if not word.startswith("pipeline=")]
    try:
        row = run_job(execute.prepare_composed(composed, words, set()), folder, number)
    except UserError as error:                    # a value that a sampler drew
        row = refused_row(error, words, number)
    save_row(folder, row)
    stop_at(row, composed.sweep.fail_fast)
    return row
