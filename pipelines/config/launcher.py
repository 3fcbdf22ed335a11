"""What starts the jobs of a sweep that runs several at a time."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.config.setting import setting


@dataclass(frozen=True)
class LauncherConfig:
    """`launcher=joblib`, `launcher=submitit`, `launcher=slurm` or `launcher=ray` (docs/launchers.md). How many jobs at once is
    sweep.devices times sweep.jobs_per_device. Changes no result."""

    name: str = setting("processes", choices=("processes", "joblib", "submitit", "ray"))
    """processes: this program's own, which need no further package; the others are packages that have to be installed."""

    cluster: str = setting("local", choices=("local", "slurm"))
    """submitit: processes on this machine, or jobs of Slurm; all of them need this folder and the same Python."""

    address: str | None = setting(None)
    """ray: the cluster to join, "HOST:PORT" or "auto"; null: one on this machine, for as long as the sweep lasts."""

    options: dict[str, Any] = setting({})
    """submitit: parameters of its executor (slurm_partition, timeout_min, gpus_per_node). ray: those of a task (num_cpus, num_gpus)."""
