"""Files of a checkpoint: a package as it stands, and beside it what going on from there needs.

    model.safetensors, hierarchos_config.json, hierarchos_rust_config.json     the package, with the fast memory as it is
    optimizer.safetensors     optimizer.NAME.exp_avg and .exp_avg_sq, flat; steps and decay class of each tensor in its metadata
    training_state.json       counters, schedules, place in the data, the writer's controller; SHA-256 of both files
"""
from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.hub.safetensors_file import TensorFile, write_tensors
from hierarchos.hub.write import write_file
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.package import ALIAS, WEIGHTS
from hierarchos.models.coherent_v9.parameters import TABLE
from hierarchos.training.checkpoint import file_hash

if TYPE_CHECKING:
    import numpy as np

OPTIMIZER, STATE = "optimizer.safetensors", "training_state.json"
OPTIMIZER_FORMAT, STATE_FORMAT = "hierarchos-vulkan-adamw-v3", "hierarchos-vulkan-training-state-v6"
PARAMETER_FORMAT, SESSION_FORMAT = "hierarchos-portable-parameter-state-v2", "hierarchos-portable-training-session-v2"
GROUPING_VERSION = 2                                # of weight decay: tensors of rank 2 and more, but the value writer
MOMENTS = ("exp_avg", "exp_avg_sq")
NOT_STARTED = "nothing was started"


class Flat:
    """A stored tensor as one row of numbers, read from the device when it is written."""

    def __init__(self, read: Callable[[], np.ndarray], size: int):
        import numpy as np

        self.read, self.shape, self.nbytes, self.dtype = read, (size,), 4 * size, np.dtype(np.float32)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.read().reshape(-1)


def write_optimizer(path: Path, names: Sequence[str], moment: Callable[[str, str], Flat], step: int, steps: Mapping[str, int],
                    classes: Mapping[str, str]) -> None:
    """Both moments of each tensor; `moment(name, kind)` gives one."""
    metadata = {"format": OPTIMIZER_FORMAT, "step": str(step), "slot_names": json.dumps(list(names)),
                "slot_steps": json.dumps([steps[name] for name in names]),
                "slot_decay_classes": json.dumps([classes[name] for name in names]), "layout": "pytorch-row-major"}
    write_tensors(path, {f"optimizer.{name}.{kind}": moment(name, kind) for name in names for kind in MOMENTS}, metadata)


def read_optimizer(path: Path, sizes: Mapping[str, int]) -> tuple[TensorFile, dict[str, str]]:
    """(the file, decay class by tensor); refuses other formats and other tensors. sizes: numbers of each."""
    if not path.is_file():
        raise UserError(f"the checkpoint has no {OPTIMIZER}", where=str(path.parent), outcome=NOT_STARTED)
    file = TensorFile(path)
    known = file.metadata.get("format")
    if known != OPTIMIZER_FORMAT:
        raise UserError(f"the optimizer state has the format {known!r}, not {OPTIMIZER_FORMAT!r}", where=str(path), outcome=NOT_STARTED)
    names = json.loads(file.metadata["slot_names"])
    if set(names) != set(sizes):
        other = sorted(set(names) ^ set(sizes))[0]
        raise UserError(f"the optimizer state {'has no' if other in sizes else 'has another'} tensor {other}", where=str(path),
                        outcome=NOT_STARTED)
    return file, dict(zip(names, json.loads(file.metadata["slot_decay_classes"]), strict=True))


def write_training_state(folder: Path, cfg: Config, step: int, tensors: int, session: Mapping, extra: Mapping) -> None:
    """The manifest. session: epochs, schedules and place in the data; extra: what only this engine needs, under `engine`."""
    from hierarchos.models.coherent_v9.contract import contract_of, digest_of

    content = {
        "format": STATE_FORMAT, "model_file": WEIGHTS, "optimizer_file": OPTIMIZER, "optimizer_step": step,
        "optimizer_tensor_count": 2 * tensors, "gradient_file": None, "accumulation_weight_mass": 0.0,
        "parameter_state": {"format": PARAMETER_FORMAT, "aliases": [[TABLE, ALIAS]]},
        "ltm_alignment_controller": dict(cfg.status),
        "training_session": {"format": SESSION_FORMAT, "optimizer_grouping_version": GROUPING_VERSION, **session},
        "architecture_contract_sha256": digest_of(contract_of(cfg)), "engine": dict(extra),
        "sha256": {name: file_hash(folder / name) for name in (WEIGHTS, OPTIMIZER)}}
    write_file(folder / STATE, json.dumps(content, indent=1) + "\n")


def read_training_state(folder: Path) -> dict:
    """The manifest, once both files are those that it was written with."""
    path = folder / STATE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = content["format"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"the checkpoint has no readable {STATE}", where=str(folder), outcome=NOT_STARTED) from None
    if known != STATE_FORMAT:
        raise UserError(f"the training state has the format {known!r}, not {STATE_FORMAT!r}", where=str(path), outcome=NOT_STARTED)
    for name, digest in content["sha256"].items():
        if not (folder / name).is_file() or file_hash(folder / name) != digest:
            raise UserError(f"{name} is damaged: its content is not what was written", where=str(folder / name), outcome=NOT_STARTED,
                            hint=f"remove {folder} to resume from the checkpoint before it")
    return content
