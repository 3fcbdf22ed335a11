"""What the pool asks of a launcher, and how one is chosen."""
from __future__ import annotations

import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from hierarchos.errors import UserError
from pipelines.config.launcher import LauncherConfig

LOST = 1          # status of a job whose worker ended without a word


class Started(Protocol):
    """A job that was started; as subprocess.Popen."""

    returncode: int | None

    def poll(self) -> int | None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def wait(self, timeout: float | None = None) -> object: ...


class Polled:
    """A job that can only be asked whether it has ended. pause: seconds between two questions."""

    pause = 0.1

    def poll(self) -> int | None:
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> None:
        """Until it has ended; TimeoutExpired after `timeout` seconds."""
        from subprocess import TimeoutExpired

        until = time.monotonic() + (timeout or 0.0)
        while self.poll() is None:
            if timeout is not None and time.monotonic() > until:
                raise TimeoutExpired("job", timeout)
            time.sleep(self.pause)


class Launcher(Protocol):
    """Starts jobs that were frozen into a sweep's folder."""

    def start(self, folder: Path, number: int, device: str) -> Started: ...
    def close(self) -> None: ...


def check_launcher(settings: LauncherConfig) -> None:
    """UserError where the package of the launcher is not installed."""
    if settings.name != "processes" and find_spec(settings.name) is None:
        raise UserError(f"launcher={settings.name} needs {settings.name}, which is not installed", where="launcher.name",
                        command=f"pip install {settings.name}")


def make_launcher(settings: LauncherConfig, folder: Path) -> Launcher:
    """The launcher that is asked for."""
    return import_module(f"pipelines.sweeping.launchers.{settings.name}").make(settings, folder)


def log_of(folder: Path, number: int) -> Path:
    """What a job says."""
    return folder / "jobs" / f"{number:04d}.log"


def work_aside(folder: str, number: int, device: str) -> int:
    """A job in a worker of a launcher: all that it says goes into its log; the status is the job's."""
    from pipelines.sweeping.worker import work

    with log_of(Path(folder), number).open("a", encoding="utf-8", buffering=1) as log, redirect_stdout(log), redirect_stderr(log):
        try:
            return work(Path(folder), number, device)
        except BaseException:
            traceback.print_exc()
            raise
