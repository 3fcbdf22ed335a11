"""How a run is carried out, and of which stages it consists."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.config.setting import setting


@dataclass(frozen=True)
class RunConfig:
    """Seeds, folders and resuming. Nothing here changes a result, except the seed."""

    seed: int = setting(0, at_least=0, at_most=2**32 - 1)
    """Decides initial weights, order of rows, dropout and sampling."""

    dir: str | None = setting(None, path=True)
    """The run directory, which must not exist yet; null: outputs/PIPELINE/DATE_TIME_ID."""

    outputs: str = setting("outputs", path=True)
    """Folder for run directories and for the stage cache."""

    resume: str | None = setting(None, path=True)
    """Continues the run in this directory, or in the newest unfinished one with `latest`."""

    allow_config_change: bool = setting(False)
    """Resumes although the settings differ from those that the run was started with."""

    force: list[str] = setting([])
    """Stages that run although the cache holds their result; [all] for every one."""

    begin: str | None = setting(None)
    """First stage that runs again in the newest run, or in the one of `resume`; those before it are kept. Short: --from STAGE."""

    until: str | None = setting(None)
    """Last stage that runs. Short: --until STAGE; --only STAGE is both."""

    explain: bool = setting(False)
    """Says for every stage why it runs or is taken from the cache."""

    profile: bool = setting(False)
    """Prints a table of GPU time by kernel at the end of a stage."""


@dataclass(frozen=True)
class PipelineConfig:
    """The stages of a run, in order."""

    name: str = setting()
    """Name of the pipeline: the word after `hierarchos`, and the folder of its runs."""

    stages: list[Any] = setting([])
    """Names of stages (acquire, tokenize, train, export, evaluate, generate), or {_target_: your.module.YourStage, ...}."""


@dataclass(frozen=True)
class SweepConfig:
    """Many runs from one command line: `hierarchos train -m train.learning_rate=1e-3,3e-4`."""

    fail_fast: bool = setting(False)
    """Stops the sweep at the first run that fails."""

    retries: int = setting(0, at_least=0)
    """Times that a failed job is tried again, from its last checkpoint."""

    devices: list[Any] = setting([])
    """Devices among which jobs are spread, as `device.select` names them: [0, 1]; each job is then a process of its own."""

    jobs_per_device: int = setting(1, at_least=1)
    """Jobs at once on each device."""

    again: bool = setting(False)
    """Runs jobs again that an earlier sweep with the same settings has finished."""
