"""The stages of a pipeline as objects, checked against each other and against what the settings point to."""
from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from hierarchos.errors import UserError, nearest
from pipelines.config import Config
from pipelines.settings.problems import raise_all
from pipelines.stage import Stage
from pipelines.stages import STAGES

READ_PACKAGES = ("evaluate", "generate", "choices")
INTERFACE = ("name", "groups", "inputs", "cached", "uses_device", "check", "key", "run")


def make_stages(entries: Sequence[object]) -> list[Stage]:
    """The stages that pipeline.stages lists; UserError for an unknown name, a foreign object or a wrong order."""
    stages = [make_stage(entry) for entry in entries]
    raise_all(order_errors(stages))
    return stages


def make_stage(entry: object) -> Stage:
    """One stage: by name, or instantiated from a {_target_: ...} mapping."""
    if isinstance(entry, str):
        if entry not in STAGES:
            raise UserError(f"{entry} is not a stage", where="pipeline.stages", nearest=nearest(entry, STAGES),
                            hint=f"there is: {', '.join(STAGES)}; or a mapping with _target_")
        module, _, name = STAGES[entry].rpartition(".")
        return getattr(import_module(module), name)()
    return _instantiate(entry)


def needed_by(stages: Sequence[Stage]) -> dict[str, list[str]]:
    """For each group of settings the stages that read it."""
    found: dict[str, list[str]] = {group: ["every stage"] for group in ("pipeline", "run")}
    for stage in stages:
        for group in (*stage.groups, *(("device", "precision") if stage.uses_device else ())):
            found.setdefault(group, []).append(stage.name)
    return found


def order_errors(stages: Sequence[Stage]) -> list[UserError]:
    """Stages that lack what they read, or stand there twice."""
    found, seen = [], set()
    for stage in stages:
        missing = [name for name in stage.inputs if not name.endswith("?") and name not in seen]
        found += [UserError(f"{stage.name} needs {name} before it", where="pipeline.stages") for name in missing]
        if stage.name in seen:
            found.append(UserError(f"{stage.name} is there twice", where="pipeline.stages"))
        seen.add(stage.name)
    if not stages:
        found.append(UserError("the pipeline has no stages", where="pipeline.stages", hint=f"there is: {', '.join(STAGES)}"))
    return found


def package_errors(names: Sequence[str], config: Config) -> list[UserError]:
    """Stages that read a package where none is: before export, or of a fresh model."""
    for place, name in enumerate(names):
        if name not in READ_PACKAGES or "export" in names[:place]:
            continue
        if "train" in names[:place]:
            stages = ",".join([*names[:place], "export", *(other for other in names[place:] if other != "export")])
            return [UserError(f"{name} reads the package that export writes; there is no export before it", where="pipeline.stages",
                              command=f"pipeline.stages=[{stages}]")]
        if config.model.source == "fresh":
            return [UserError(f"{name} needs a package; a fresh model has none", where="model.source",
                              command="model=local model.path=FOLDER")]
    return []


def cut(stages: Sequence[Stage], until: str | None) -> list[Stage]:
    """The stages up to and with the one that a run ends at."""
    names = [stage.name for stage in stages]
    return list(stages[:names.index(until) + 1]) if until is not None else list(stages)


def check_stages(stages: Sequence[Stage], config: Config) -> None:
    """Lets every stage look at what the settings point to; raises all that is wrong at once."""
    names = [stage.name for stage in stages]
    asked = [("run.force", name) for name in config.run.force if name != "all"]
    asked += [(f"run.{key}", name) for key in ("begin", "until") if (name := getattr(config.run, key)) is not None]
    told = f"its stages: {', '.join(names)}"
    errors = [UserError(f"{name} is not a stage of this pipeline", where=where, nearest=nearest(name, names), hint=told)
              for where, name in asked if name not in names]
    errors += package_errors(names, config)
    for stage in stages:
        try:
            stage.check(config)
        except UserError as error:
            errors.append(error)
    raise_all(errors)


def _instantiate(entry: object) -> Stage:
    from hydra.errors import HydraException
    from hydra.utils import instantiate

    if not isinstance(entry, dict) or "_target_" not in entry:
        raise UserError(f"{entry} is not a stage", where="pipeline.stages", hint="write a name, or a mapping with _target_: module.Class")
    try:
        stage = instantiate(entry)
    except (HydraException, TypeError) as error:
        hint = [line.partition(", set env var")[0] for line in str(error).splitlines()[:2]]      # no advice about Hydra's switches
        raise UserError(f"the stage {entry['_target_']} cannot be made", where="pipeline.stages", hint=hint) from error
    lacking = [name for name in INTERFACE if not hasattr(stage, name)]
    if lacking:
        raise UserError(f"{entry['_target_']} is not a stage", where="pipeline.stages", hint=f"it lacks {', '.join(lacking)}")
    return stage
