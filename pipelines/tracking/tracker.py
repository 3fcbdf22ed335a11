"""What a tracker is told, and that none of its faults ends a run."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hierarchos.errors import UserError

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.progress import Progress
    from pipelines.run_directory import RunDirectory

PACKAGES = {"tensorboard": ("tensorboard",), "mlflow": ("mlflow", "sqlalchemy", "alembic"), "trackio": ("trackio",)}
INSTALL = {"tensorboard": "tensorboard", "mlflow": "mlflow-skinny sqlalchemy alembic", "trackio": "trackio"}
FIGURES = ("loss", "validation_loss", "perplexity", "accuracy", "tokens_per_second", "peak_bytes")          # of stages, told at the end


class Tracker(Protocol):
    """One run, as a tracker sees it."""

    def log(self, step: int, figures: Mapping[str, float]) -> None: ...
    def end(self, status: str, results: Mapping[str, float]) -> None: ...


def check_tracker(config: Config) -> None:
    """UserError where the package of the chosen tracker is not installed."""
    name = config.tracker.name
    missing = [package for package in PACKAGES.get(name, ()) if find_spec(package) is None]
    if missing:
        raise UserError(f"tracker={name} needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
                        where="tracker.name", command=f"pip install {INSTALL[name]}")


class Careful:
    """Passes everything on until the tracker fails; then says so once, and the run goes on without it."""

    def __init__(self, name: str, progress: Progress, make: object):
        self.name, self.progress, self.inner = name, progress, None
        self.inner = self.attempt(make)

    def attempt(self, call: object, *arguments: object) -> object:
        try:
            return call(*arguments)
        except Exception as error:
            self.inner = None
            self.progress.line(f"tracker: {self.name} failed, the run goes on without it: {type(error).__name__}: {error}")
            return None

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        if self.inner is not None:
            self.attempt(self.inner.log, step, figures)

    def end(self, status: str, results: Mapping[str, float]) -> None:
        if self.inner is not None:
            self.attempt(self.inner.end, status, results)


@contextmanager
def tracked(config: Config, run: RunDirectory, progress: Progress) -> Iterator[Careful | None]:
    """The tracker of a run, or None; told how the run ended, however it ends."""
    name = config.tracker.name
    if name == "none":
        yield None
        return
    folder = Path(config.tracker.folder or Path(config.run.outputs) / "tracker" / name).resolve()
    module = f"pipelines.tracking.{name}"
    tracker = Careful(name, progress, lambda: import_module(module).start(config, run, folder))
    progress.line(f"tracker: {name} in {folder}")
    try:
        yield tracker
    finally:
        tracker.end(run.manifest["status"], results_of(run.manifest))


def results_of(manifest: Mapping) -> dict[str, float]:
    """Figures of the stages as {"evaluate/loss": 3.2}."""
    return {f"{stage}/{name}": value for stage, told in manifest.get("stages", {}).items()
            for name, value in told.get("facts", {}).items() if name in FIGURES and isinstance(value, (int, float))}
