"""One run from a checked command line to its closing table."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines import resume as resuming
from pipelines.cache import StageCache
from pipelines.config import Config
from pipelines.devices import facts, find_device, first_line
from pipelines.environment import write_environment
from pipelines.hashing import PACKAGES
from pipelines.manifest import describe, job_hash, typed_command
from pipelines.memory import refuse_large_package
from pipelines.planning import check_stages, cut, make_stages, needed_by
from pipelines.precision import check_precision, precision_line
from pipelines.progress import Progress
from pipelines.run_directory import RunDirectory, read_manifest, status_of
from pipelines.runner import Runner, explain
from pipelines.settings.compose import Request, check_request, compose, required_keys
from pipelines.settings.effect import without_effect
from pipelines.settings.folders import Folders
from pipelines.settings.problems import raise_all
from pipelines.settings.resolve import as_dict, resolve
from pipelines.stage import Context, Stage, Watch
from pipelines.summary import closing
from pipelines.tracking.tracker import check_tracker, tracked


@dataclass
class Job:
    """A checked run that can start: nothing about it is on disk yet."""

    config: Config
    words: list[str]
    stages: Sequence[Stage]
    device: object = None
    earlier: resuming.Earlier | None = None
    progress: Progress = field(default_factory=Progress)
    identity: str | None = None
    anew: bool = False
    watch: Watch | None = None              # told the loss of each validation; may end the job
    directory: Path | None = None           # once it has begun

    @property
    def known_as(self) -> str:
        """The hash by which the job is known again; a sweep gives it where it chooses the device of a job itself."""
        return self.identity or job_hash(self.config)

    @property
    def outputs(self) -> Path:
        return Path(self.config.run.outputs)

    @property
    def cache(self) -> StageCache:
        return StageCache(self.outputs / "cache")

    def cache_for(self, run: Path) -> StageCache:
        """The cache that all runs share; for a job that is to compute everything anew one of its own."""
        return StageCache(run / "cache") if self.anew else self.cache


def prepare(pipeline: str, words: list[str], folders: Folders, progress: Progress | None = None) -> Job:
    """Everything that can be wrong before a run starts is found here; raises UserError."""
    earlier = None
    given = [word.partition("=")[2] for word in words if word.startswith("run.outputs=")]
    outputs = Path(given[-1] if given else "outputs")
    if resuming.begins_late(words):
        words = [*words, f"run.resume={resuming.newest(pipeline, outputs)}", "run.allow_config_change=true"]
    if (which := resuming.resume_word(words)) is not None:
        earlier = resuming.find(which, pipeline, outputs)
        words = earlier.words_with(words)
    request = check_request(pipeline, words, folders)
    job = prepare_config(request, progress)
    if earlier is not None:
        resuming.check_unchanged(earlier, as_dict(job.config), job.config.run.allow_config_change)
        job.earlier = earlier
    return job


def prepare_config(request: Request, progress: Progress | None = None) -> Job:
    """Composes a checked command line and looks at what its settings point to."""
    composed = compose(request)
    return prepare_composed(composed, list(request.typed), required_keys(request), progress)


def prepare_composed(composed: object, words: list[str], required: set[str], progress: Progress | None = None) -> Job:
    """A job from a composed configuration."""
    stages = make_stages(stage_entries(composed))
    config = resolve(composed, needed_by(stages), required)
    raise_all(without_effect(config, words))
    job = ready(config, stages)
    return replace(job, words=words, progress=progress or Progress())


def prepare_saved(config: Config) -> Job:
    """A job from settings that were checked before, as a run directory keeps them."""
    return ready(config, make_stages(config.pipeline.stages))


def ready(config: Config, stages: list[Stage]) -> Job:
    """A job whose stages and device have been looked at."""
    check_stages(stages, config)
    check_tracker(config)
    stages = cut(stages, config.run.until)
    device = find_device(config.device) if any(stage.uses_device for stage in stages) else None
    if device is not None:
        check_precision(config.precision, device)
        refuse_large_package(config, device)
    return Job(config, [], stages, device)


def stage_entries(composed: object) -> list:
    """pipeline.stages as plain values."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(composed.pipeline.stages)


def run(job: Job, sweep: str | None = None) -> RunDirectory:
    """Carries a job out; raises StageFailed or KeyboardInterrupt, with run.json telling how far it came."""
    if job.earlier is not None and status_of(job.earlier.path) == "done" and not job.config.run.allow_config_change:
        job.progress.line(f"{job.earlier.path} is finished: nothing is left to do")
        return RunDirectory(job.earlier.path, read_manifest(job.earlier.path))
    if job.device is not None:
        job.progress.line(first_line(job.device))
        if line := precision_line(job.config.precision, job.device):
            job.progress.line(line)
    directory, before = open_directory(job, sweep)
    job.directory = directory.path
    with directory.at_work():
        job.progress.line(f"run: {directory.path}")
        context = Context(job.config, directory, job.progress, resuming=job.earlier is not None, watch=job.watch)
        with tracked(job.config, directory, job.progress) as context.tracker:
            Runner(context, job.cache_for(directory.path), before).run(job.stages)
        closing(job.progress, directory)
    return directory


def open_directory(job: Job, sweep: str | None) -> tuple[RunDirectory, dict]:
    """A new run directory, or the earlier one with what its stages had done."""
    manifest = describe(job.config, typed_command(), facts(job.device) if job.device else None) | {"job": job.known_as}
    words = without_resume(job.words)
    if job.earlier is None:
        manifest |= {"sweep": sweep} if sweep else {}
        made = RunDirectory.create(job.outputs, job.config.pipeline.name, manifest, as_dict(job.config), words, job.config.run.dir)
        made.save(git=write_environment(made.path, PACKAGES, manifest["git"]))
        return made, {}
    directory = RunDirectory.reopen(job.earlier.path)
    before = dict(directory.manifest.get("stages", {}))
    resumed = [*directory.manifest.get("resumed", []), {"from": directory.manifest["status"], "git": directory.manifest.get("git")}]
    directory.write_config(as_dict(job.config), words)
    directory.save(**manifest, status="running", resumed=resumed, error=None)
    return directory, before


def without_resume(words: list[str]) -> list[str]:
    """What was typed, without the words that only say how to continue."""
    return [word for word in words if word.lstrip("+").partition("=")[0] not in resuming.RUN_KEYS]


def explained(job: Job) -> list[str]:
    """What would happen to each stage."""
    context = Context(job.config, None, job.progress)
    if job.earlier is None:
        return explain(job.stages, context, job.cache)
    context.looked_at = job.earlier.path
    return explain(job.stages, context, job.cache, read_manifest(job.earlier.path).get("stages", {}))
