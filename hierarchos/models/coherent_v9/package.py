"""Portable packages: two configuration files, one safetensors file, the tokenizer. What is saved loads bit for bit.

    hierarchos_config.json          every resolved key, `model_type: hierarchos`
    hierarchos_rust_config.json     the same keys, the contract and its digest
    model.safetensors               learned tensors and buffers, float32; the tied table once, as lm_head.weight
    tokenizer.json ...              what the package came with
"""
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError, nearest
from hierarchos.hub.safetensors_file import sync
from hierarchos.hub.write import copy_companions, write_file, written_aside
from hierarchos.models.coherent_v9.config import MODEL_TYPE, Config, resolve
from hierarchos.models.coherent_v9.contract import check_contract, contract_of, digest_of
from hierarchos.models.coherent_v9.parameters import TABLE, parameters

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.hub.safetensors_file import TensorFile

CONFIG, PORTABLE, WEIGHTS = "hierarchos_config.json", "hierarchos_rust_config.json", "model.safetensors"
FORMAT, ALIAS, WARMUP = "hierarchos-rust-fp32-v1", "tok_emb.weight", "memory_gate_warmup_step"
OPTIONAL = ("ltm.fast_vals", "ltm._mom_vals", "ltm.timestamps", "ltm.sources", "time_freqs")
NOT_LOADED = "nothing was loaded"


@dataclass(frozen=True, eq=False)
class Loaded:
    """A package in memory. values: learned tensors by name; buffers: the rest, memory_gate_warmup_step among them."""

    config: Config
    values: dict[str, np.ndarray]
    buffers: dict[str, np.ndarray]
    folder: Path


def buffer_shapes(cfg: Config) -> dict[str, tuple[int, ...]]:
    """Buffers of a package."""
    slots = (cfg.ltm_slots, cfg.ltm_val_dim)
    return {"ltm.fast_vals": slots, "ltm._mom_vals": slots, "ltm.timestamps": slots[:1], WARMUP: (), "time_freqs": (cfg.ltm_val_dim // 2,)}


def fresh_buffers(cfg: Config, warmup_step: float = 0.0) -> dict[str, np.ndarray]:
    """An empty memory; `time_freqs` is kept for other readers, nothing here uses it."""
    import numpy as np

    buffers = {name: np.zeros(shape, np.float32) for name, shape in buffer_shapes(cfg).items()}
    half = cfg.ltm_val_dim // 2
    buffers["time_freqs"] = np.exp(-np.arange(half) * (np.log(10000.0) / max(1, half - 1))).astype(np.float32)
    buffers[WARMUP] = np.array(warmup_step, np.float32)
    return buffers


def is_package(folder: str | Path) -> bool:
    """Whether a folder holds a Hierarchos model, of any revision."""
    return config_file(Path(folder)) is not None


def config_file(folder: Path) -> Path | None:
    """The configuration of a Hierarchos package: its own name first, then config.json with its model_type."""
    if (folder / CONFIG).is_file():
        return folder / CONFIG
    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return None
    return folder / "config.json" if isinstance(raw, dict) and raw.get("model_type") == MODEL_TYPE else None


def read_config(folder: str | Path) -> Config:
    """The configuration; refuses legacy packages and contracts that do not fit their keys."""
    folder = Path(folder)
    path = config_file(folder)
    if path is None:
        raise UserError(f"a Hierarchos package needs {CONFIG}, there is none", where=str(folder), outcome=NOT_LOADED)
    cfg = resolve(_json(path), str(path), NOT_LOADED)
    if (folder / PORTABLE).is_file():
        stored = _json(folder / PORTABLE)
        check_contract(contract_of(cfg), stored.get("architecture_contract"), stored.get("architecture_contract_sha256"),
                       str(folder / PORTABLE), NOT_LOADED)
    return cfg


def _json(path: Path) -> dict:
    try:
        raw = json.loads(path.read_text(encoding="utf-8-sig"))
        assert isinstance(raw, dict)
    except (ValueError, AssertionError):
        raise UserError("this is not a JSON object", where=str(path), outcome=NOT_LOADED) from None
    return raw


def load(folder: str | Path) -> Loaded:
    """Reads a package; raises UserError for missing, unknown, misshapen or non-finite tensors and for another contract."""
    folder = Path(folder)
    cfg = read_config(folder)
    path, file = folder / WEIGHTS, weights_of(folder)
    _check_metadata(cfg, file.metadata, path)
    found = {name: file.read(name) for name in file.entries if name != "ltm.sources"}
    values, buffers = arrange(cfg, found, path)
    return Loaded(cfg, values, buffers, folder)


def weights_of(folder: str | Path) -> TensorFile:
    """The tensors of a package, none of them read yet; raises UserError where there is no whole file of them."""
    from hierarchos.hub.safetensors_file import TensorFile

    path = Path(folder) / WEIGHTS
    if not path.is_file():
        raise UserError(f"a Hierarchos package needs {WEIGHTS}, there is none", where=str(folder), outcome=NOT_LOADED)
    return TensorFile(path)


def _check_metadata(cfg: Config, metadata: Mapping[str, str], path: Path) -> None:
    if "architecture_contract_sha256" in metadata:
        check_contract(contract_of(cfg), None, metadata["architecture_contract_sha256"], str(path), NOT_LOADED)


def arrange(cfg: Config, found: dict[str, np.ndarray], path: Path | str) -> tuple[dict, dict]:
    """(values, buffers) of the tensors of a file, after all checks."""
    import numpy as np

    found = _one_table(found, path)
    shapes, extra = {spec.name: spec.shape for spec in parameters(cfg)}, buffer_shapes(cfg)
    unknown = [name for name in found if name not in shapes and name not in extra]
    if unknown:
        raise UserError(f"{unknown[0]} is not a tensor of this model", where=str(path), nearest=nearest(unknown[0], shapes),
                        outcome=NOT_LOADED)
    missing = [name for name in (*shapes, WARMUP) if name not in found]
    if missing:
        raise UserError(f"{missing[0]} is missing" + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""), where=str(path),
                        outcome=NOT_LOADED)
    for name, array in found.items():
        wanted = shapes.get(name, extra.get(name))
        if tuple(array.shape) != wanted:
            raise UserError(f"{name} has shape {list(array.shape)}; its configuration needs {list(wanted)}", where=str(path),
                            outcome=NOT_LOADED)
        if not np.isfinite(array).all():
            raise UserError(f"{name} holds values that are not finite", where=str(path), outcome=NOT_LOADED)
    return {name: found[name] for name in shapes}, fresh_buffers(cfg) | {name: found[name] for name in extra if name in found}


def _one_table(found: dict[str, np.ndarray], path: Path | str) -> dict[str, np.ndarray]:
    """The tied table under one name; two copies must be equal."""
    import numpy as np

    if ALIAS not in found:
        return found
    table = found.pop(ALIAS)
    if TABLE in found and not np.array_equal(found[TABLE], table):
        raise UserError(f"{TABLE} and {ALIAS} are one tensor, but the file holds two different ones", where=str(path), outcome=NOT_LOADED)
    return found | {TABLE: table}


def save(folder: str | Path, cfg: Config, values: Mapping[str, np.ndarray], buffers: Mapping[str, np.ndarray] | None = None, *,
         companions: str | Path | None = None, files: Mapping[str, str] | None = None) -> Path:
    """Writes a package aside and renames it into place. companions: the folder whose tokenizer is copied. files: further ones, by name."""
    folder = Path(folder)
    if folder.exists():
        _check_replaceable(folder)
    with written_aside(folder) as aside:
        copy_companions(companions, aside)
        for name, content in {**config_files(cfg), **(files or {})}.items():
            write_file(aside / name, content)
        write_weights(aside / WEIGHTS, cfg, values, buffers or fresh_buffers(cfg))
    return folder


def _check_replaceable(folder: Path) -> None:
    if not is_package(folder):
        raise UserError("the place holds something that is not a Hierarchos package, so it is not replaced", where=str(folder),
                        outcome="nothing was written")


def config_files(cfg: Config) -> dict[str, str]:
    """Both configuration files, by name."""
    keys = {**cfg.values, **cfg.status}
    contract = contract_of(cfg)
    portable = {"format_version": 1, **keys, "architecture_contract": contract, "architecture_contract_sha256": digest_of(contract)}
    own = {"model_type": MODEL_TYPE, **keys}
    return {CONFIG: json.dumps(own, indent=1) + "\n", PORTABLE: json.dumps(portable, indent=1) + "\n"}


def write_weights(path: Path, cfg: Config, values: Mapping[str, np.ndarray], buffers: Mapping[str, np.ndarray]) -> None:
    """model.safetensors with its metadata."""
    import numpy as np

    ordered = {spec.name: values[spec.name] for spec in parameters(cfg)} | {name: buffers[name] for name in buffer_shapes(cfg)}
    arrays = {name: np.asarray(array, "<f4", order="C") for name, array in ordered.items()}
    metadata = {"format": FORMAT, "architecture_revision": cfg.architecture_revision,
                "architecture_contract_sha256": digest_of(contract_of(cfg))}
    header, offset = {"__metadata__": metadata}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:                   # not the library's writer: its metadata comes in another order each time
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.tobytes())
        sync(file)
