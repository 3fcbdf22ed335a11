"""What training coherent-v9 keeps on a device, and how a checkpoint holds it."""
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.coherent.machine import Memory
from hierarchos.graph.program import compile_program
from hierarchos.graph.tensor import Spec
from hierarchos.kernels.optimizer import BLOCK, adamw_scalars
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.parameters import parameters
from hierarchos.training.coherent.writer import Writer
from hierarchos.training.graphs import DECAY_GROUPS, FIRST, GRADIENTS, PARAMETERS, SECOND, Update, update_graph
from hierarchos.training.settings import OptimizerSettings

if TYPE_CHECKING:
    import numpy as np

DECAYED, PLAIN = 0, 1                               # groups of weight decay


class CoherentState:
    """Learned tensors, gradients and both moments on a device; the writer's status and the warm-up step of the gates beside them."""

    def __init__(self, cfg: Config, device, optimizer: OptimizerSettings, max_norm: float, trained: frozenset[str] | None = None):
        self.cfg, self.optimizer, self.writer = cfg, optimizer, Writer(**cfg.status)
        self.warmup_start = self.warmup_step = 0.0              # batches that the gates had seen before this run, and by now
        self.memory = Memory(cfg, device, training=True)
        self.store, self.specs = self.memory.store, parameters(cfg)
        self.trained = frozenset(spec.name for spec in self.specs) if trained is None else trained
        for arena in (FIRST, SECOND):
            self.store.mirror(arena, of=PARAMETERS)
        floats = self.store.layout.find(PARAMETERS).spec.size
        self.store.allocate("decay", {DECAY_GROUPS: Spec((floats // BLOCK,), "u32")})
        self.store.write(DECAY_GROUPS, self._groups(floats))
        self._update = compile_program(update_graph(Update(floats, "adamw", False, max_norm)), device, self.store, label="update")

    def _groups(self, floats: int) -> np.ndarray:
        import numpy as np

        groups = np.full(floats // BLOCK, PLAIN, np.uint32)
        for spec in self.specs:
            first = self.store.layout.find(spec.name).offset // (4 * BLOCK)
            groups[first:first + -(-spec.size // BLOCK)] = DECAYED if spec.decay and spec.name in self.trained else PLAIN
        return groups

    def load(self, values: Mapping[str, np.ndarray]) -> None:
        """Writes initial or pretrained tensors; moments start at zero."""
        self.memory.load(values)

    def clear_gradients(self) -> None:
        self.store.zero(GRADIENTS)

    def update(self, step: int, rate: float) -> float:
        """AdamW step `step` (from 1) on the gradients there are; returns their norm before clipping.

        A gradient that is not finite changes nothing."""
        for spec in self.specs:
            if spec.name not in self.trained:
                self.store.zero(f"{GRADIENTS}/{spec.name}")
        o = self.optimizer
        scalars = adamw_scalars(step, [(rate, o.weight_decay), (rate, 0.0)], (o.beta1, o.beta2), o.eps)
        return float(self._update.run({"scalars": scalars})["square_norm"][0]) ** 0.5

    def entries(self) -> Iterator[tuple[str, str]]:
        """(name in a state file, name in the store) of all that a checkpoint holds."""
        for arena in (PARAMETERS, FIRST, SECOND):
            for spec in self.specs:
                yield f"{arena}/{spec.name}", spec.name if arena == PARAMETERS else f"{arena}/{spec.name}"

    def save(self, path: Path) -> None:
        """Writes the state file of a checkpoint; writer status and warm-up step lie in its metadata's place, `coherent.json` beside it."""
        from hierarchos.hub.write import write_file, write_tensors
        from hierarchos.training.state import StoredTensor

        write_tensors(path, {name: StoredTensor(self.store, held) for name, held in self.entries()})
        write_file(path.with_name(SIDECAR), json.dumps(self.sidecar(), indent=1) + "\n")

    def sidecar(self) -> dict:
        from hierarchos.models.coherent_v9.contract import contract_of, digest_of

        contract = contract_of(self.cfg)
        return {"architecture_contract": contract, "architecture_contract_sha256": digest_of(contract), "writer": vars(self.writer),
                "memory_gate_warmup_step": self.warmup_step, "memory_gate_warmup_start": self.warmup_start,
                "slot_decay_classes": {spec.name: "decay" if spec.decay else "no-decay" for spec in self.specs}}

    def restore(self, path: Path) -> None:
        """Reads what `save` wrote; refuses a checkpoint of another model."""
        from safetensors import safe_open

        from hierarchos.models.coherent_v9.contract import check_contract, contract_of

        side = json.loads(path.with_name(SIDECAR).read_text(encoding="utf-8"))
        check_contract(contract_of(self.cfg), side["architecture_contract"], side["architecture_contract_sha256"], str(path.parent),
                       "nothing was started")
        with safe_open(path, framework="numpy") as file:
            for name, held in self.entries():
                self.store.write(held, file.get_tensor(name))
        self.writer, self.warmup_step = Writer(**side["writer"]), side["memory_gate_warmup_step"]
        self.warmup_start = side["memory_gate_warmup_start"]

    def first_bad(self, arena: str) -> str | None:
        """The first tensor of an arena, in model order, that holds a value that is not finite."""
        import numpy as np

        prefix = "" if arena == PARAMETERS else f"{arena}/"
        return next((spec.name for spec in self.specs if not np.isfinite(self.store.read(prefix + spec.name)).all()), None)


SIDECAR = "coherent.json"
