"""Hashes of settings, files and source code: what cache keys and manifests are made of."""
from __future__ import annotations

import dataclasses
import hashlib
import json
from functools import cache
from pathlib import Path

PACKAGES = Path(__file__).parent.parent          # holds hierarchos/ and pipelines/


def hash_json(value: object) -> str:
    """SHA-256 of a JSON value, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_folder(folder: Path) -> str:
    """SHA-256 over names and contents of all files below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hash_json([[path.relative_to(folder).as_posix(), hash_file(path)] for path in files])


@cache
def hash_source(*modules: str) -> str:
    """Code version of modules and whole packages ("hierarchos.data"), from their files; nothing is imported."""
    found = [path for module in modules for path in _files(PACKAGES.joinpath(*module.split(".")))]
    return hash_json([[path.relative_to(PACKAGES).as_posix(), hash_file(path)] for path in sorted(found)])


def _files(base: Path) -> list[Path]:
    if base.is_dir():
        return [path for path in base.rglob("*.py") if "__pycache__" not in path.parts]
    return [base.with_suffix(".py")]


@cache
def hash_shaders() -> str:
    """Hash of all SPIR-V that ships with the package."""
    from hierarchos.resources import resource

    return hash_folder(resource("shaders/spirv"))


def flatten(value: object, prefix: str = "") -> dict[str, object]:
    """Nested dictionaries and dataclasses as {"a.b": leaf}."""
    if dataclasses.is_dataclass(value):
        value = dataclasses.asdict(value)
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    return {key: leaf for name, below in value.items() for key, leaf in flatten(below, f"{prefix}.{name}" if prefix else str(name)).items()}


def differences(before: object, after: object) -> list[str]:
    """What changed, one line each: "train.steps: 50 -> 80"."""
    old, new = flatten(before), flatten(after)
    keys = [*new, *(key for key in old if key not in new)]
    return [f"{key}: {_show(old, key)} -> {_show(new, key)}" for key in keys if old.get(key, keys) != new.get(key, keys)]


def _show(values: dict[str, object], key: str) -> str:
    return json.dumps(values[key], ensure_ascii=False, default=str) if key in values else "(absent)"
