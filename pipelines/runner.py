"""Runs the stages of one run in its directory: from the cache where nothing changed, else for real, each with its own log."""
from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import NOTHING_STARTED, UserError
from pipelines.cache import StageCache
from pipelines.files import write_json
from pipelines.hashing import hash_json
from pipelines.stage import Artefact, Context, Stage
from pipelines.system_errors import told

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.run_directory import RunDirectory


class StageFailed(Exception):
    """A stage stopped with an error; `log` holds its traceback, `error` is what happened."""

    def __init__(self, stage: str, error: BaseException, log: Path):
        super().__init__(f"{stage} failed: {error}")
        self.stage, self.error, self.log = stage, error, log


@dataclass(frozen=True)
class Decision:
    """Whether a stage runs, why, and what is there when it does not."""

    runs: bool
    reason: str
    artefact: Artefact | None = None


@dataclass
class Runner:
    """One run. `earlier`: what run.json says about stages of the run that is resumed."""

    context: Context
    cache: StageCache
    earlier: dict = field(default_factory=dict)
    forced: set[str] = field(default_factory=set)

    def run(self, stages: Sequence[Stage]) -> None:
        """Runs all stages; raises StageFailed, or KeyboardInterrupt, with run.json telling how far it came."""
        run = self.context.run
        self.forced = forced_stages(stages, self.context.config)
        try:
            for stage in stages:
                self.run_stage(stage)
        except KeyboardInterrupt:
            self.end("interrupted")
            raise
        except StageFailed as failed:
            with suppress(OSError):
                self.end("failed", error={"stage": failed.stage, "type": type(failed.error).__name__, "message": str(failed.error),
                                          "log": str(failed.log.relative_to(run.path))})
            raise
        outdated(run, [stage.name for stage in stages], self.context.config)
        self.end("done", error=None)

    @property
    def before_in(self) -> Path:
        """The directory of the run that is continued, also while it is only looked at."""
        return self.context.run.path if self.context.run is not None else self.context.looked_at

    def end(self, status: str, **changes: object) -> None:
        from pipelines.run_directory import now

        seconds = sum(stage.get("seconds", 0) for stage in self.context.run.manifest.get("stages", {}).values())
        self.context.run.save(status=status, ended=now(), seconds=round(seconds, 3), **changes)

    def run_stage(self, stage: Stage) -> None:
        """One stage: decide, run or fetch, write down."""
        run, begun = self.context.run, time.perf_counter()
        folder = run.stage_folder(stage.name)
        with stage_log(folder / "log", self.context) as log, self.failures(stage, folder / "log"):
            key = stage.key(self.context)
            write_json(folder / "key.json", key)
            decision = self.decide(stage, key)
            log.info("%s: %s", "runs" if decision.runs else "taken", decision.reason)
            if self.context.config.run.explain:
                self.context.progress.line(explained(stage.name, decision))
            run.save_stage(stage.name, status="running", key=hash_json(key), reason=decision.reason, cached=not decision.runs)
            artefact = decision.artefact or self.execute(stage, key, folder)
            self.context.artefacts[stage.name] = artefact
            run.save_stage(stage.name, status="done", seconds=round(time.perf_counter() - begun, 3), digest=artefact.digest,
                           folder=relative(artefact.folder, run.path), facts=artefact.facts)
            told = {name.removesuffix("_hash"): value for name, value in artefact.facts.items() if name.endswith("_hash")}
            run.save(hashes=run.manifest["hashes"] | told)

    def decide(self, stage: Stage, key: dict) -> Decision:
        """From this run, from the cache, or anew."""
        if stage.name in self.forced:
            return Decision(True, "it was asked for (--force, --from or --only)")
        before = self.earlier.get(stage.name, {})
        if before.get("status") == "done" and before.get("key") == hash_json(key) and (self.before_in / before["folder"]).exists():
            kept = Artefact(self.before_in / before["folder"], before["digest"], before["facts"])
            return Decision(False, "it was done before this run was interrupted", kept)
        if not stage.cached:
            return Decision(True, "its result is never kept in the cache")
        found = self.cache.find(stage.name, key)
        if found is not None:
            return Decision(False, "settings, code and inputs are those of an earlier run", found)
        return Decision(True, self.cache.reason(stage.name, key))

    def execute(self, stage: Stage, key: dict, folder: Path) -> Artefact:
        """Runs a stage into the cache, or into this run's directory."""
        if stage.cached:
            return self.cache.make(stage.name, key, lambda made: self.call(stage, made), again=stage.name in self.forced)
        made = getattr(stage, "folder_in", lambda run, default: default)(self.context.run.path, folder)
        facts = self.call(stage, made)
        return Artefact(made, facts.pop("digest", None) or hash_json(key), facts)

    def call(self, stage: Stage, folder: Path) -> dict:
        self.context.folder = folder
        try:
            return dict(stage.run(self.context) or {})
        finally:
            self.context.close()              # the next stage has the whole memory of the device

    @contextmanager
    def failures(self, stage: Stage, log_path: Path) -> Iterator[None]:
        """Turns any error of a stage into StageFailed, its traceback into the stage's log at once."""
        run = self.context.run
        try:
            yield
        except KeyboardInterrupt:
            run.save_stage(stage.name, status="interrupted")
            raise
        except Exception as error:
            if isinstance(error, UserError) and error.outcome == NOTHING_STARTED:
                error.outcome = None
            self.context.log.exception("%s failed", stage.name)
            with suppress(OSError):           # a full disk; the run then counts as interrupted
                run.save_stage(stage.name, status="failed")
            raise StageFailed(stage.name, told(error) or error, log_path) from error
        finally:
            if self.context.progress.bar is not None:
                self.context.progress.bar.finish()


def outdated(run: RunDirectory, ran: list[str], config: Config) -> None:
    """Notes that results of stages after the last one come from what was there before."""
    for name in run.manifest.get("stages", {}):
        if config.run.until is not None and name not in ran:
            run.save_stage(name, status="outdated")


def forced_stages(stages: Sequence[Stage], config: Config) -> set[str]:
    """Stages that run whatever is kept: those of run.force, and run.begin with all after it."""
    names = [stage.name for stage in stages]
    later = names[names.index(config.run.begin):] if config.run.begin in names else []
    return set(names if "all" in config.run.force else config.run.force) | set(later)


def explained(name: str, decision: Decision) -> str:
    """One line of --explain."""
    return f"{name:<10} {'runs' if decision.runs else 'cached'}: {decision.reason}"


def explain(stages: Sequence[Stage], context: Context, cache: StageCache, earlier: dict | None = None) -> list[str]:
    """What would happen, stage by stage, as far as it can be known without running anything."""
    lines, to_run = [], set()
    runner = Runner(context, cache, earlier or {}, forced_stages(stages, context.config))
    for stage in stages:
        waits = [name.rstrip("?") for name in stage.inputs if name.rstrip("?") in to_run]
        key = {} if waits else stage.key(context)
        decision = Decision(True, f"its key is known once {waits[0]} has run") if waits else runner.decide(stage, key)
        lines.append(explained(stage.name, decision))
        if decision.artefact is not None:
            context.artefacts[stage.name] = decision.artefact
        elif (known := getattr(stage, "preview", lambda context: None)(context)) is not None:
            context.artefacts[stage.name] = known
        else:
            to_run.add(stage.name)
    return lines


@contextmanager
def stage_log(path: Path, context: Context) -> Iterator[logging.Logger]:
    """Sends what is logged during a stage into its file."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.handleError = lambda record: None        # a full disk is told once, by the stage that meets it
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = context.log
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        logger.removeHandler(handler)
        handler.close()


def relative(path: Path, base: Path) -> str:
    """Path as run.json keeps it: relative to the run where it can be."""
    import os

    try:
        return os.path.relpath(path.resolve(), base.resolve())
    except ValueError:                         # another drive
        return str(path.resolve())


