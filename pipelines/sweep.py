"""Many runs from one command line, through Hydra's multirun: its sweepers and launchers, our run directories.

A job is known by the hash of its settings: issued again, a sweep leaves out what is done and continues what was
interrupted. One job's failure is written into its own log at once, with one line on the screen; the others go on.
"""
from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from hierarchos.errors import UserError
from pipelines import execute, exits
from pipelines import resume as resuming
from pipelines.files import write_json
from pipelines.manifest import job_hash
from pipelines.progress import Progress, duration, shown
from pipelines.run_directory import read_manifest, runs, status_of, unique_folder
from pipelines.runner import StageFailed
from pipelines.settings.compose import ROOT, Request, check_request, hydra_for, load
from pipelines.settings.folders import Folders
from pipelines.settings.problems import raise_all

FIGURES = ("validation_loss", "loss", "perplexity")          # what the table shows of a run, where a stage tells it


class StopSweep(BaseException):
    """Ends a sweep at a failed job; not an Exception, so that Hydra's launchers let it pass."""


def sweep(pipeline: str, words: list[str], folders: Folders) -> int:
    """Checks every job, runs them, prints a table; the status is that of the worst job."""
    request = check_request(pipeline, words, folders, multirun=True)
    refuse_single_run_words(request)
    composed = load(hydra_for(folders), request.all_overrides, RunMode.MULTIRUN)         # launcher and sweeper are there
    if not request.sweeps and not composed.hydra.sweeper.get("params"):
        raise UserError("-m without a setting that has several values", where="command line", command="train.learning_rate=1e-3,3e-4")
    config = check_jobs(request)
    folder = unique_folder(Path(config.run.outputs) / "sweeps")
    Progress().line(f"sweep: {folder}")
    begun = time.monotonic()
    interrupted = False
    try:
        arguments = [*request.all_overrides, f"hydra.sweep.dir={folder}", "hydra.sweep.subdir=."]
        hydra_for(folders).multirun(ROOT, job, arguments, with_log_configuration=False)
    except StopSweep:
        pass
    except KeyboardInterrupt:
        interrupted = True
    rows = read_rows(folder)
    print_table(rows, list(request.sweeps), duration(time.monotonic() - begun))
    if interrupted:
        raise KeyboardInterrupt("interrupted; the same command again continues the sweep")
    return max((row["exit"] for row in rows), default=exits.DONE)


def look(pipeline: str, words: list[str], folders: Folders) -> int:
    """Checks every job and lists them; runs nothing, creates nothing."""
    request = check_request(pipeline, words, folders, multirun=True)
    refuse_single_run_words(request)
    check_jobs(request)
    for number, job_words in enumerate(expand(request)):
        print(f"job {number}: {' '.join(job_words)}")
    return exits.DONE


def refuse_single_run_words(request: Request) -> None:
    """Settings that mean one run."""
    for key, hint in (("run.dir", "every job has a directory of its own; give run.outputs"),
                      ("run.resume", "the same command again continues a sweep")):
        if any(override.startswith(f"{key}=") for override in request.overrides):
            raise UserError(f"{key} cannot be used with -m", where="command line", hint=hint)


def check_jobs(request: Request) -> object:
    """Composes and checks every job of a grid before the first one starts; returns the configuration of one of them."""
    errors, config = [], None
    for words in expand(request):
        try:
            one = check_request(request.pipeline, words, request.folders)
            config = execute.prepare_config(one).config
        except UserError as error:
            errors.append(error)
    raise_all(errors)
    return config


def expand(request: Request) -> list[list[str]]:
    """The command lines of all jobs of a grid; only the first values where a sampler draws them."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    parsed = OverridesParser.create().parse_overrides(list(request.overrides))
    fixed = [override for override in parsed if not override.is_sweep_override() or override.is_discrete_sweep()]
    ours = [override for override in fixed if not override.key_or_group.startswith("hydra")]
    return [list(words) for words in BasicSweeper.split_arguments(ours, None)[0]]


def job(composed: DictConfig) -> dict:
    """One job, as Hydra's launcher calls it; also in another process. Returns its row of the table."""
    hydra = HydraConfig.get()
    folder, number = Path(hydra.sweep.dir), int(hydra.job.num)
    words = [word for word in OmegaConf.to_container(hydra.overrides.task) if not word.startswith("pipeline=")]
    try:
        row = run_job(execute.prepare_composed(composed, words, set()), folder, number)
    except UserError as error:                    # a value that a sampler drew, or a directory that cannot be made
        row = refused_row(error, words, number)
    (folder / "jobs").mkdir(exist_ok=True)
    write_json(folder / "jobs" / f"{number:04d}.json", row)
    if row["exit"] not in (exits.DONE, exits.INTERRUPTED) and composed.sweep.fail_fast:
        raise StopSweep
    if row["exit"] == exits.INTERRUPTED:
        raise KeyboardInterrupt
    return row


@dataclass
class Outcome:
    """How a job ended."""

    status: str
    exit: int
    path: Path | None


def run_job(prepared: execute.Job, folder: Path, number: int) -> dict:
    """Leaves a finished job out, continues an interrupted one, runs a new one."""
    progress, words = prepared.progress, " ".join(prepared.words)
    earlier = None if prepared.config.sweep.again else find_earlier(prepared)
    if earlier is not None and status_of(earlier) == "done":
        progress.line(f"job {number}: {words}: done before, in {earlier}")
        return row_of(Outcome("done before", exits.DONE, earlier), prepared, number)
    if earlier is not None:
        prepared.earlier = resuming.Earlier(earlier, [], {})
    progress.line(f"job {number}: {words}" + (f" (continues {earlier})" if earlier else ""))
    return row_of(carry_out(prepared, folder, number), prepared, number)


def carry_out(prepared: execute.Job, folder: Path, number: int) -> Outcome:
    """Runs a job; every way it can fail is one line on the screen."""
    try:
        return Outcome("done", exits.DONE, execute.run(prepared, sweep=folder.name).path)
    except StageFailed as failed:
        first = exits.stage_message(failed).splitlines()[0]
        prepared.progress.line(f"job {number} failed: {first}; log: {failed.log}")
        return Outcome(f"failed: {first}", exits.status_of(failed.error), failed.log.parents[2])
    except KeyboardInterrupt:
        return Outcome("interrupted", exits.INTERRUPTED, None)


def find_earlier(prepared: execute.Job) -> Path | None:
    """The newest run with the same settings that is done, or else one that can be continued."""
    mine = job_hash(prepared.config)
    same = [path for path in runs(prepared.outputs, prepared.config.pipeline.name) if read_manifest(path).get("job") == mine]
    done = [path for path in same if status_of(path) == "done"]
    unfinished = [path for path in same if status_of(path) in ("interrupted", "failed")]
    return (done or unfinished or [None])[-1]


def row_of(outcome: Outcome, prepared: execute.Job, number: int) -> dict:
    """A row of the table: job, settings, status, figures, directory."""
    stages = read_manifest(outcome.path).get("stages", {}) if outcome.path else {}
    facts = {name: value for stage in stages.values() for name, value in stage.get("facts", {}).items() if name in FIGURES}
    seconds = sum(stage.get("seconds", 0) for stage in stages.values())
    return {"job": number, "overrides": prepared.words, "status": outcome.status, "exit": outcome.exit, "seconds": seconds,
            "figures": facts, "run": str(outcome.path) if outcome.path else None}


def refused_row(error: UserError, words: list[str], number: int) -> dict:
    """The row of a job that could not start."""
    Progress().line(f"job {number} failed: {error}")
    return {"job": number, "overrides": words, "status": f"failed: {error.what}", "exit": exits.WRONG_INPUT, "seconds": 0,
            "figures": {}, "run": None}


def read_rows(folder: Path) -> list[dict]:
    """Rows of all jobs that have ended, in order."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((folder / "jobs").glob("*.json"))]


def print_table(rows: list[dict], swept: list[str], took: str) -> None:
    """The closing table: what was swept, how it ended, the figures."""
    figures = [name for name in FIGURES if any(name in row["figures"] for row in rows)]
    values = [dict(word.lstrip("+").split("=", 1) for word in row["overrides"]) for row in rows]
    lines = [[str(row["job"]), *(value.get(key, "") for key in swept), row["status"],
              *(shown(row["figures"].get(name, "")) for name in figures), row["run"] or ""]
             for row, value in zip(rows, values, strict=True)]
    headings = ["job", *swept, "status", *(name.replace("_", " ") for name in figures), "run"]
    Progress().table(f"{len(rows)} job{'s' if len(rows) != 1 else ''}, {took}", headings, lines)


