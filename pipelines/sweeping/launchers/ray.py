"""Ray: jobs as tasks, on this machine or on a cluster whose nodes see the same folder."""
from __future__ import annotations

import os
import socket
from pathlib import Path

from hierarchos.errors import UserError
from pipelines.config.launcher import LauncherConfig
from pipelines.hashing import PACKAGES
from pipelines.sweeping.launchers.launcher import LOST, Polled, log_of, work_aside

ANSWER_SECONDS = 10.0


def make(settings: LauncherConfig, folder: Path) -> Tasks:
    """Joins the cluster, or starts one; Ray's reports of usage are switched off. UserError where there is no such cluster."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    found = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")]))}}
    here = {} if settings.address else {"include_dashboard": False}
    refuse_silence(settings.address)
    try:
        ray.init(address=settings.address, log_to_driver=False, logging_level="critical", runtime_env=found, **here)
    except Exception as error:                     # of many kinds: ConnectionError, ValueError, RuntimeError, Exception itself
        raise no_ray(settings.address, error) from None
    return Tasks(ray, settings.options, os.getcwd())


def refuse_silence(address: str | None) -> None:
    """UserError where nothing listens at HOST:PORT; Ray itself would go on asking for a quarter of an hour."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        raise no_ray(address, error) from None


def no_ray(address: str | None, error: Exception) -> UserError:
    """What to say where Ray does not come up."""
    what = f"no Ray answers at {address}" if address else "Ray does not start"
    reason = " ".join((str(error) or type(error).__name__).split("\n")[0].split())
    return UserError(f"{what}: {reason}", where="launcher.address", command="ray start --head" if address else None)


class Tasks:
    """Starts tasks; the pool tries again what is lost, so Ray does not."""

    def __init__(self, ray: object, options: dict, folder: str):
        self.ray, self.at = ray, folder
        try:
            self.task = ray.remote(**{"max_retries": 0, "max_calls": 1, **options})(in_folder)
        except (ValueError, TypeError) as error:
            ray.shutdown()
            raise UserError(f"Ray does not take these options: {error}".splitlines()[0], where="launcher.options") from None

    def start(self, folder: Path, number: int, device: str) -> Task:
        return Task(self.ray, self.task.remote(self.at, str(folder.resolve()), number, device))

    def close(self) -> None:
        self.ray.shutdown()


def in_folder(at: str, folder: str, number: int, device: str) -> int:
    """The job, in the folder where the sweep was started: relative paths are meant from there."""
    import ray

    os.chdir(at)
    with log_of(Path(folder), number).open("a", encoding="utf-8") as log:
        log.write(f"on node {ray.get_runtime_context().get_node_id()[:12]} of Ray, {socket.gethostname()}\n")
    return work_aside(folder, number, device)


class Task(Polled):
    """A job of Ray."""

    def __init__(self, ray: object, reference: object):
        self.ray, self.reference, self.returncode = ray, reference, None

    def poll(self) -> int | None:
        if self.returncode is None and self.ray.wait([self.reference], timeout=0)[0]:
            try:
                self.returncode = self.ray.get(self.reference)
            except Exception:                      # its worker or node is gone
                self.returncode = LOST
        return self.returncode

    def terminate(self) -> None:
        self.ray.cancel(self.reference)

    def kill(self) -> None:
        self.ray.cancel(self.reference, force=True)
