"""What run.json says about the world a run was started in."""
from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

from hierarchos import __version__
from pipelines.config import Config
from pipelines.environment import git_state
from pipelines.hashing import PACKAGES, hash_json, hash_shaders, hash_source
from pipelines.settings.resolve import as_dict

LIBRARIES = ("numpy", "hydra-core", "omegaconf", "vulkan", "safetensors", "tokenizers", "datasets", "huggingface_hub")
NOT_RESULTS = ("dir", "outputs", "resume", "allow_config_change", "force", "begin", "until", "explain",
               "profile")                            # of run.*: change no result


def describe(config: Config, command: list[str], device: dict | None) -> dict:
    """The constant part of run.json."""
    return {
        "pipeline": config.pipeline.name,
        "command": command,
        "job": job_hash(config),
        "seed": config.run.seed,
        "device": device,
        "folder": os.getcwd(),
        "hashes": {"config": hash_json(as_dict(config)), "data": None, "tokenizer": None, "shaders": hash_shaders(),
                   "code": hash_source("hierarchos", "pipelines")},
        "versions": {"hierarchos": __version__, "python": platform.python_version(), **library_versions()},
        "platform": platform.platform(),
        "git": git_state(PACKAGES),
    }


def job_hash(config: Config) -> str:
    """Identity of a job: the hash of all settings that can change its result."""
    return hash_json(comparable(as_dict(config)))


def comparable(values: dict) -> dict:
    """The settings without those that only say where and how a run is carried out and watched."""
    run = {name: value for name, value in values["run"].items() if name not in NOT_RESULTS}
    return {**{group: value for group, value in values.items() if group not in ("sweep", "tracker", "launcher", "search")}, "run": run}


def library_versions() -> dict[str, str]:
    """Installed versions of the libraries that can change a result."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def typed_command() -> list[str]:
    """The command line as it was typed."""
    return ["hierarchos", *sys.argv[1:]]
