"""Searching with Optuna: a study in a file, a job for each trial, jobs that lag behind ended early.

A trial whose process died is found by the lock of its sweep's folder: its values are tried again, and since a job is known by its settings,
it goes on in its own run directory from its last checkpoint. Several processes may work at one study.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from hierarchos.errors import UserError
from pipelines import execute, exits
from pipelines.config import Config
from pipelines.files import write_json, write_text
from pipelines.hashing import hash_json
from pipelines.lock import Lock, is_held
from pipelines.manifest import job_hash
from pipelines.progress import Progress, shown
from pipelines.reading.runs import FIGURES, read_run
from pipelines.settings.compose import Request, check_request
from pipelines.settings.problems import raise_all
from pipelines.settings.resolve import as_dict
from pipelines.sweeping.jobs import SweepJob
from pipelines.sweeping.one import PRUNED, Pruned, refused_row, run_job
from pipelines.sweeping.rows import save_row
from pipelines.sweeping.space import Space, is_interval

LOCK, ENDED = "lock", "ended"          # a file of the sweep's folder; an attribute of trials whose job came to its own end


def check_search(request: Request, config: Config) -> Space | None:
    """The space of a search, None for a grid; UserError for what cannot be searched, before anything starts."""
    space = Space.of(request)
    intervals = [override for override in space.swept if is_interval(override)]
    if config.search.name == "grid":
        if intervals:
            raise UserError(f"{intervals[0].key_or_group} has an interval, from which only a search can draw", where="command line",
                            command="search=optuna")
        return None
    if find_spec("optuna") is None:
        raise UserError("search=optuna needs optuna, which is not installed", where="search.name", command="pip install optuna")
    if config.sweep.devices or config.sweep.jobs_per_device > 1 or config.launcher.name != "processes":
        raise UserError("a search runs one job at a time", where="sweep.devices",
                        hint="start the same command several times, each with its own device=SELECT: they share the study")
    raise_all([error for words in space.corners() if (error := mistake(request, words)) is not None])
    return space


def mistake(request: Request, words: Sequence[str]) -> UserError | None:
    """What is wrong with the job of these words."""
    try:
        execute.prepare_config(check_request(request.pipeline, words, request.folders))
    except UserError as error:
        return error
    return None


@dataclass
class Search:
    """A study that this process works at."""

    request: Request
    space: Space
    config: Config
    folder: Path

    def run(self) -> None:
        """Runs trials until the study has as many as are asked for; raises KeyboardInterrupt."""
        lock = Lock(self.folder / LOCK)
        lock.acquire()
        study, progress = self.open_study(), Progress()
        done = f"{self.ended(study)} of {self.config.search.trials} trials are done"
        progress.line(f"search: study {study.study_name} in {self.storage}, {done}")
        try:
            retry_lost(study, progress)
            while self.ended(study) < self.config.search.trials:
                self.run_trial(study)
        finally:
            lock.release()
        self.tell_best(study, progress)

    @property
    def storage(self) -> Path:
        return Path(self.config.search.storage or Path(self.config.run.outputs) / "search.db")

    def open_study(self) -> Any:
        """The study in its file, made where it is new."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        settings = self.config.search
        self.storage.parent.mkdir(parents=True, exist_ok=True)
        name = settings.study or f"{self.request.pipeline}-{hash_json([word for word in self.request.overrides if about_jobs(word)])[:10]}"
        most = FIGURES[settings.objective] == "most"
        study = optuna.create_study(study_name=name, storage=f"sqlite:///{self.storage.resolve()}", load_if_exists=True,
                                    direction="maximize" if most else "minimize", pruner=pruner_of(settings))
        seed = settings.seed + len(study.trials)            # else a continued study would draw the same values again
        study.sampler = optuna.samplers.RandomSampler(seed) if settings.sampler == "random" else optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=settings.startup)
        return study

    def ended(self, study: Any) -> int:
        """Trials whose jobs came to their own end."""
        return sum(1 for trial in study.get_trials(deepcopy=False) if trial.user_attrs.get(ENDED))

    def run_trial(self, study: Any) -> None:
        """Draws values, runs the job, tells the study."""
        from optuna.trial import TrialState

        trial = study.ask()
        trial.set_user_attr("sweep", str(self.folder.resolve()))
        row = self.job_row(trial)
        save_row(self.folder, row)
        if row["exit"] == exits.INTERRUPTED:
            raise KeyboardInterrupt
        value = self.value_of(row)
        state = TrialState.PRUNED if row["status"] == PRUNED else TrialState.COMPLETE if value is not None else TrialState.FAIL
        trial.set_user_attr(ENDED, row["status"])
        trial.set_user_attr("run", row["run"])
        study.tell(trial, value if state == TrialState.COMPLETE else None, state=state)
        if row["exit"] != exits.DONE and self.config.sweep.fail_fast:
            from pipelines.sweep import StopSweep

            raise StopSweep

    def job_row(self, trial: Any) -> dict:
        """The job of a trial, written down and carried out; its row."""
        words = self.space.draw(trial)
        try:
            config = execute.prepare_config(check_request(self.request.pipeline, words, self.request.folders)).config
            job = SweepJob(trial.number, tuple(words), config, job_hash(config))
            self.write_down(job)
            return run_job(replace(job.prepare(), watch=watcher(trial)), self.folder, trial.number)
        except UserError as error:                # two values that do not fit each other
            return refused_row(error, words, trial.number)

    def write_down(self, job: SweepJob) -> None:
        """The settings of a job, and the list of jobs so far."""
        import json

        (self.folder / "jobs").mkdir(exist_ok=True)
        write_text(self.folder / "jobs" / f"{job.number:04d}.yaml",
                   yaml.safe_dump(as_dict(job.config), sort_keys=False, allow_unicode=True))
        path = self.folder / "sweep.json"
        told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {
            "pipeline": self.request.pipeline, "typed": list(self.request.typed), "swept": list(self.request.sweeps), "jobs": []}
        told["jobs"].append({"job": job.number, "words": list(job.words), "identity": job.identity})
        write_json(path, told)

    def value_of(self, row: dict) -> float | None:
        """The objective of a job that is done; None where it has none that is a number."""
        if row["exit"] != exits.DONE or row["run"] is None:
            return None
        value = read_run(Path(row["run"])).figures.get(self.config.search.objective)
        return value if value is not None and math.isfinite(value) else None

    def tell_best(self, study: Any, progress: Progress) -> None:
        """One line about the best trial so far."""
        from optuna.trial import TrialState

        if study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            best = study.best_trial
            words = " ".join(f"{key}={shown(value)}" for key, value in best.params.items())
            value = f"{self.config.search.objective.replace('_', ' ')} {shown(best.value)}"
            progress.line(f"best: {words}: {value}, in {best.user_attrs['run']}")
        else:
            progress.line(f"no trial told {self.config.search.objective}")


def about_jobs(word: str) -> bool:
    """Whether a word says what jobs there are, and not how many or where."""
    return not word.lstrip("+").startswith(("search.trials=", "search.storage=", "sweep.", "device"))


def pruner_of(settings: Any) -> Any:
    """Optuna's pruner."""
    from optuna import pruners

    if settings.pruner == "none":
        return pruners.NopPruner()
    return pruners.MedianPruner(n_startup_trials=settings.startup) if settings.pruner == "median" else pruners.SuccessiveHalvingPruner()


def watcher(trial: Any) -> Any:
    """Told the loss of each validation of a job; ends it where the study says so."""
    def watch(step: int, loss: float) -> None:
        trial.report(loss, step)
        if trial.should_prune():
            raise Pruned(f"ended early at step {step}, validation loss {loss:.4g}")

    return watch


def retry_lost(study: Any, progress: Progress) -> None:
    """Trials whose process is gone: their values are the next ones that are tried."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if not is_held(Path(trial.user_attrs.get("sweep", "nowhere")) / LOCK):
            progress.line(f"job {trial.number} was interrupted; its values are tried again")
            study.tell(trial.number, state=TrialState.FAIL)
            study.enqueue_trial(trial.params)
