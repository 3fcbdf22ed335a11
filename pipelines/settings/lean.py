"""Hydra's composition of our settings alone: its own node, which nothing reads in a single run, costs half of the time."""
from __future__ import annotations

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import IConfigRepository
from hydra._internal.defaults_list import Overrides, _create_defaults_list
from hydra.core.default_element import ResultDefault
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, flag_override


def compose_settings(loader: ConfigLoaderImpl, root: str, overrides: list[str]) -> DictConfig:
    """As `loader.load_configuration` for one run, less the node `hydra`; raises what that raises."""
    parsed, repository = loader._parse_overrides_and_create_caching_repo(root, overrides)
    loader.validate_sweep_overrides_legal(parsed, run_mode=RunMode.RUN, from_shell=True)
    chosen = Overrides(repo=repository, overrides_list=parsed)
    defaults, _ = _create_defaults_list(repository, root, chosen, prepend_hydra=False, skip_missing=False)
    for group, choice in chosen.override_metadata.items():
        choice.used |= group.startswith("hydra/")                # of hierarchos.yaml: Hydra's logging is off
    chosen.ensure_overrides_used()
    chosen.ensure_deletions_used()
    config = merged(loader, repository, defaults)
    OmegaConf.set_struct(config, True)
    loader._apply_overrides_to_config(chosen.config_overrides, config)
    return config


def merged(loader: ConfigLoaderImpl, repository: IConfigRepository, defaults: list[ResultDefault]) -> DictConfig:
    """The files in their order, each over those before it."""
    contents = [loader._load_single_config(default=default, repo=repository).config for default in defaults]
    for content in contents:
        if "hydra" in content:
            content.pop("hydra")
    config = OmegaConf.create()
    with flag_override(config, "no_deepcopy_set_nodes", True):
        config.merge_with(*contents)
    return config
