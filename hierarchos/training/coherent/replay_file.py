"""What a run with `persist_state` carries from batch to batch, in a checkpoint: the state of each row, ROSA's automata, the fast memory.

    training_replay.json            names, automata, the digest of the contract; tensors by reference
    training_replay.safetensors     state_000000 ...
"""
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.models.coherent_v9 import state as states
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.contract import check_contract, contract_of, digest_of
from hierarchos.models.coherent_v9.memory import FastMemory
from hierarchos.models.coherent_v9.rosa import Automaton

if TYPE_CHECKING:
    import numpy as np

REPLAY, TENSORS, FORMAT = "training_replay.json", "training_replay.safetensors", "hierarchos-portable-training-replay-v1"
FAST = ("fast_vals", "mom_vals", "timestamps", "sources")
NOT_STARTED = "nothing was started"


@dataclass(eq=False)
class Running:
    """parts: the carried state [B,...] by name; rosa: an automaton a row, or None; fast: with inner updates only."""

    parts: dict[str, np.ndarray]
    rosa: list[Automaton] | None
    fast: FastMemory | None


def write_replay(folder: Path, cfg: Config, running: Running) -> None:
    """Writes both files."""
    import numpy as np

    from hierarchos.hub.safetensors_file import write_tensors
    from hierarchos.hub.write import write_file

    arrays = dict(states.pack(running.parts))
    if running.fast is not None:
        fast = running.fast
        held = (fast.values, fast.momentum, fast.timestamps, fast.sources)
        arrays |= {f"ltm.{name}": array for name, array in zip(FAST, held, strict=True)}
    names = {name: f"state_{number:06d}" for number, name in enumerate(arrays)}
    write_tensors(folder / TENSORS, {names[name]: np.asarray(array, np.float32) for name, array in arrays.items()})
    content = {"format": FORMAT, "architecture_contract_sha256": digest_of(contract_of(cfg)),
               "running_states": {name: {"__kind__": "tensor", "name": stored} for name, stored in names.items()},
               "rosa": None if running.rosa is None else [automaton.to_json() for automaton in running.rosa]}
    write_file(folder / REPLAY, json.dumps(content) + "\n")


def read_replay(folder: Path, cfg: Config, rows: int) -> Running:
    """Reads both; refuses another contract, another number of rows and values that are not finite."""
    import numpy as np

    from hierarchos.hub.safetensors_file import TensorFile

    path = folder / REPLAY
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        stored = {name: entry["name"] for name, entry in content["running_states"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"the checkpoint has no readable {REPLAY}: its run did not carry the state from batch to batch", where=str(folder),
                        hint="coherent.persist_state=false goes on without it", outcome=NOT_STARTED) from None
    check_contract(contract_of(cfg), None, content.get("architecture_contract_sha256"), str(path), NOT_STARTED)
    file = TensorFile(folder / TENSORS)
    arrays = {name: file.read(tensor) for name, tensor in stored.items()}
    bad = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if bad:
        raise UserError(f"{bad[0]} holds a value that is not finite", where=str(folder / TENSORS), outcome=NOT_STARTED)
    if len(arrays["h_state"]) != rows:
        raise UserError(f"the checkpoint carries the state of {len(arrays['h_state'])} rows, this run has batches of {rows}",
                        where=str(path), outcome=NOT_STARTED, hint=f"train.batch_size={len(arrays['h_state'])}")
    memory = [arrays[f"ltm.{name}"].copy() for name in FAST if f"ltm.{name}" in arrays]
    fast = FastMemory(*memory[:3], memory[3].astype(np.int64)) if memory else None
    rosa = None if content["rosa"] is None else [Automaton.from_json(entry) for entry in content["rosa"]]
    return Running(states.unpack(cfg, arrays), rosa, fast)
