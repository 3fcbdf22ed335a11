"""The jobs of a sweep: composed and checked before the first one starts, and frozen, so that files may change while it goes on.

outputs/sweeps/DATE_TIME_ID/
  sweep.json         what was typed, which settings are swept, every job with its words and identity
  jobs/0007.yaml     all settings of job 7, as they were when the sweep started
  jobs/0007.json     its row of the table, once it has ended
  jobs/0007.log      what it said, where it ran in a process of its own; a traceback where something failed
"""
from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from hierarchos.errors import UserError
from pipelines import execute
from pipelines.config import Config
from pipelines.files import write_json, write_text
from pipelines.manifest import job_hash
from pipelines.settings.compose import Request, check_request
from pipelines.settings.many import many
from pipelines.settings.problems import raise_all
from pipelines.settings.resolve import as_dict
from pipelines.settings.typed import build


@dataclass(frozen=True)
class SweepJob:
    """One job: its words, all its settings, and the hash by which it is known again."""

    number: int
    words: tuple[str, ...]
    config: Config
    identity: str

    def prepare(self) -> execute.Job:
        """What can run: stages checked, the device found. Raises UserError."""
        return replace(execute.prepare_saved(self.config), words=list(self.words), identity=self.identity)


def make_jobs(request: Request) -> list[SweepJob]:
    """Every combination of a grid, checked; raises all mistakes together. Two equal combinations are one job."""
    errors, jobs = [], {}
    combinations = expand(request)
    with many(request.folders):
        for words in combinations:
            try:
                config = execute.prepare_config(check_request(request.pipeline, words, request.folders)).config
            except UserError as error:
                errors.append(error)
                continue
            job = SweepJob(len(jobs), tuple(words), config, job_hash(config))
            jobs.setdefault(job.identity, job)
    raise_all(errors)
    return list(jobs.values())


def expand(request: Request) -> list[list[str]]:
    """The command lines of all jobs of a grid; only the first values where a sampler draws them."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    from pipelines.settings.compose import hydra_for

    parser = OverridesParser.create(config_loader=hydra_for(request.folders).config_loader)        # which knows what glob(...) matches
    parsed = parser.parse_overrides(list(request.overrides))
    fixed = [override for override in parsed if not override.is_sweep_override() or override.is_discrete_sweep()]
    raise_all([no_value(override.input_line) for override in fixed if override.is_discrete_sweep() and not list(override.sweep_iterator())])
    ours = [override for override in fixed if not override.key_or_group.startswith("hydra")]
    return [list(words) for words in BasicSweeper.split_arguments(ours, None)[0]]


def no_value(word: str) -> UserError:
    """A range or a glob that is empty."""
    hint = "no file has such a name" if "glob(" in word else "a range ends before its second number"
    return UserError(f"{word} has no value", where="command line", hint=hint)


def freeze(folder: Path, jobs: Sequence[SweepJob], typed: Sequence[str], swept: Sequence[str]) -> None:
    """Writes all jobs down."""
    (folder / "jobs").mkdir(exist_ok=True)
    for job in jobs:
        write_text(folder / "jobs" / f"{job.number:04d}.yaml", yaml.safe_dump(as_dict(job.config), sort_keys=False, allow_unicode=True))
    listed = [{"job": job.number, "words": list(job.words), "identity": job.identity} for job in jobs]
    name = jobs[0].config.pipeline.name
    write_json(folder / "sweep.json", {"pipeline": name, "typed": list(typed), "swept": list(swept), "jobs": listed})


def thaw(folder: Path, number: int) -> SweepJob:
    """A job as it was written down."""
    entry = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))["jobs"][number]
    values = yaml.safe_load((folder / "jobs" / f"{number:04d}.yaml").read_text(encoding="utf-8"))
    return SweepJob(number, tuple(entry["words"]), build(Config, values), entry["identity"])
