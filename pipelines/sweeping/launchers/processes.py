"""A process of this program for each job."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pipelines.config.launcher import LauncherConfig
from pipelines.sweeping.launchers.launcher import log_of


def make(settings: LauncherConfig, folder: Path) -> Processes:
    return Processes()


class Processes:
    """Starts processes."""

    def start(self, folder: Path, number: int, device: str) -> subprocess.Popen:
        """Starts a job; all that it says goes into its log."""
        command = [sys.executable, "-m", "pipelines.sweeping.worker", str(folder), str(number), device]
        with log_of(folder, number).open("a", encoding="utf-8") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)

    def close(self) -> None:
        """Nothing is kept between jobs."""
