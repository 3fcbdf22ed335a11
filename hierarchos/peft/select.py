"""Which modules a configuration means, by PEFT's rules; what matches nothing is an error with near names."""
from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hierarchos.errors import UserError, nearest
from hierarchos.peft.config import LoraConfig
from hierarchos.peft.sites import Site

SHOWN = 12                    # names listed where none is near


@dataclass(frozen=True)
class Lora:
    """Low-rank matrices on one module: A [rank, in], B [out, rank], and what their product is multiplied by."""

    site: Site
    rank: int
    scale: float
    dora: bool = False
    dropout: float = 0.0


@dataclass(frozen=True)
class Plan:
    """What an adapter adds to a model: LoRA by module, modules trained as a whole, rows of embeddings, biases."""

    loras: dict[str, Lora]
    saved: dict[str, Site]
    tokens: dict[str, tuple[int, ...]]
    biases: frozenset[str]


def plan_of(config: LoraConfig, sites: Mapping[str, Site], where: str = "peft") -> Plan:
    """Resolves a configuration against a model's modules; raises UserError for names that are not there."""
    saved = {name: sites[name] for wanted in config.modules_to_save for name in _ending(wanted, sites, f"{where}.modules_to_save")}
    tokens = {name: ids for wanted, ids in config.trainable_token_indices.items()
              for name in _token_table(wanted, ids, sites, f"{where}.trainable_token_indices")}
    if both := [name for name in tokens if name in saved]:
        raise UserError(f"{both[0]} is trained as a whole and also row by row", where=where,
                        hint="leave it out of modules_to_save or of trainable_token_indices")
    chosen = [name for name in _targets(config, sites, where) if name not in saved]
    _check_excludes(config, sites, where)
    if config.target_modules and not chosen:
        raise UserError("no module is left to adapt", where=f"{where}.target_modules",
                        hint="exclude_modules and modules_to_save name all that are targeted")
    loras = {name: _lora(config, sites[name], where) for name in chosen}
    return Plan(loras, saved, tokens, _biases(config, sites, loras))


def _lora(config: LoraConfig, site: Site, where: str) -> Lora:
    if site.kind == "norm":
        raise UserError(f"{site.name} is a norm; LoRA goes on linear layers, embeddings and the head", where=f"{where}.target_modules",
                        hint="modules_to_save trains it as a whole")
    rank = _by_pattern(config.rank_pattern, site.name, config.r)
    alpha = _by_pattern(config.alpha_pattern, site.name, config.lora_alpha)
    if config.use_dora and site.kind != "linear":
        raise UserError(f"DoRA on {site.name} is not implemented: it is no linear layer", where=f"{where}.target_modules",
                        hint="use_dora works on linear layers; modules_to_save trains embeddings and head as a whole")
    return Lora(site, rank, alpha / (math.sqrt(rank) if config.use_rslora else rank), config.use_dora, config.lora_dropout)


def _by_pattern(patterns: Mapping[str, float], name: str, usual):
    """The value of the first pattern that the end of a module's name matches."""
    return next((value for key, value in patterns.items() if matches(key, name)), usual)


def matches(pattern: str, name: str) -> bool:
    """Whether a key of rank_pattern or alpha_pattern means a module."""
    return re.match(rf"(.*\.)?({pattern})$", name) is not None


def _targets(config: LoraConfig, sites: Mapping[str, Site], where: str) -> list[str]:
    """Names of the modules that get matrices."""
    wanted, place = config.target_modules, f"{where}.target_modules"
    candidates = [name for name, site in sites.items() if site.kind != "norm" or not isinstance(wanted, str)]
    if wanted == "all-linear":
        found = [name for name in candidates if sites[name].kind == "linear"]
    elif isinstance(wanted, str):
        found = [name for name in candidates if _full_match(wanted, name, place)]
        if not found:
            raise _absent(f"no module matches the expression {wanted!r}", wanted, sites, place)
    else:
        listed = {name for item in wanted for name in _named(item, sites, place)}
        found = [name for name in candidates if name in listed]
        if not found and not config.modules_to_save and not config.trainable_token_indices:
            raise UserError("an adapter needs modules to adapt, and none is named", where=place,
                            command=f"{where}.target_modules=all-linear")
    if config.layers_to_transform is not None:
        found = _in_layers(config, found, where)
    return [name for name in found if not _excluded(config, name)]


def _full_match(expression: str, name: str, where: str) -> bool:
    try:
        return re.fullmatch(expression, name) is not None
    except re.error as error:
        raise UserError(f"{expression!r} is not a regular expression: {error}", where=where,
                        hint="several modules are written as a list:  [q_proj, v_proj]") from None


def _in_layers(config: LoraConfig, names: list[str], where: str) -> list[str]:
    patterns = config.layers_pattern or (r"[^.]*",)
    expressions = [re.compile(rf"(?:^|.*?\.){pattern}\.(\d+)\.") for pattern in patterns]
    numbers = {name: next((int(m.group(1)) for e in expressions if (m := e.match(name))), None) for name in names}
    present = {number for number in numbers.values() if number is not None}
    if absent := [layer for layer in config.layers_to_transform if layer not in present]:
        held = f"{min(present)} to {max(present)}" if present else "none with a number"
        raise UserError(f"layer {absent[0]} is not there: the model's targeted layers are {held}", where=f"{where}.layers_to_transform")
    return [name for name in names if numbers[name] in config.layers_to_transform]


def _excluded(config: LoraConfig, name: str) -> bool:
    excluded = config.exclude_modules
    if isinstance(excluded, str):
        return re.fullmatch(excluded, name) is not None
    return any(name == item or name.endswith(f".{item}") for item in excluded)


def _check_excludes(config: LoraConfig, sites: Mapping[str, Site], where: str) -> None:
    """An exclusion that excludes nothing is a mistake."""
    for item in () if isinstance(config.exclude_modules, str) else config.exclude_modules:
        _named(item, sites, f"{where}.exclude_modules")


def _named(item: str, sites: Iterable[str], where: str) -> list[str]:
    """Modules whose name is `item` or ends with it; raises UserError where there is none."""
    found = [name for name in sites if name == item or name.endswith(f".{item}")]
    if not found:
        raise _absent(f"no module is called {item}", item, sites, where)
    return found


def _ending(item: str, sites: Iterable[str], where: str) -> list[str]:
    """Modules to save: PEFT takes every name that ends so, `norm` means `input_layernorm` too."""
    return [name for name in sites if name.endswith(item)] or _named(item, sites, where)


def _absent(what: str, item: str, sites: Iterable[str], where: str) -> UserError:
    """The message for a name that is nowhere: the nearest last word or full name, else what there is."""
    ends = list(dict.fromkeys(name.rpartition(".")[2] for name in sites))
    several = re.split(r"[\s,;|]+", item.strip("[]() "))
    if len(several) > 1 and all(any(f".{name}".endswith(f".{one}") for name in sites) for one in several):
        return UserError(what, where=where, hint="several are written as a list:", command=f"{where}=[{','.join(several)}]")
    near = nearest(item, ends, 0.6) or nearest(item, list(sites), 0.6)
    return UserError(what, where=where, nearest=near, hint=() if near else f"there are: {', '.join(ends[:SHOWN])}")


def _token_table(item: str, ids: tuple[int, ...], sites: Mapping[str, Site], where: str) -> list[str]:
    """The embedding whose rows are trained."""
    found = _named(item, sites, where)
    for name in found:
        rows = sites[name].shape[0]
        if sites[name].kind != "embedding":
            raise UserError(f"{name} is no embedding: only rows of an embedding can be trained alone", where=where)
        if wrong := [token for token in ids if not 0 <= token < rows]:
            raise UserError(f"token {wrong[0]} is not there: {name} has {rows} rows", where=where)
        if len(set(ids)) < len(ids) or not ids:
            raise UserError("token ids are given twice" if ids else "no token id is given", where=where)
    return found


def _biases(config: LoraConfig, sites: Mapping[str, Site], loras: Mapping[str, Lora]) -> frozenset[str]:
    """Full names of the biases that are trained."""
    if config.bias == "none":
        return frozenset()
    chosen = sites.values() if config.bias == "all" else [lora.site for lora in loras.values()]
    return frozenset(name for site in chosen for name in site.parameters if name.endswith(".bias"))


def with_percent(config: LoraConfig, sites: Mapping[str, Site], base: int, percent: float, where: str = "peft") -> LoraConfig:
    """The configuration with the largest uniform rank whose matrices have at most `percent` of the base's values."""
    if config.rank_pattern or config.use_dora or config.modules_to_save or config.trainable_token_indices or config.bias != "none":
        raise UserError("parameter_percent chooses one rank for all matrices: it does not go with rank_pattern, dora, bias, "
                        "modules_to_save or trainable_token_indices", where=f"{where}.parameter_percent")
    each = sum(lora.site.inner + lora.site.outer for lora in plan_of(config, sites, where).loras.values())
    rank = int(base * percent / 100) // each
    if rank < 1:
        raise UserError(f"{percent:g}% of {base:,} parameters are fewer than the {each:,} of rank 1", where=f"{where}.parameter_percent",
                        hint=f"rank 1 needs {100 * each / base:.3g}%")
    return replace(config, r=rank, lora_alpha=config.lora_alpha * rank / config.r)
