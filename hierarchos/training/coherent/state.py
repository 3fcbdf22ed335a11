"""What training coherent-v9 keeps on a device, and how a checkpoint holds it."""
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.coherent.machine import Memory
from hierarchos.graph.program import compile_program
from hierarchos.graph.tensor import Spec
from hierarchos.kernels.optimizer import BLOCK, adamw_scalars
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.parameters import parameters
from hierarchos.training.coherent.replay_file import read_replay, write_replay
from hierarchos.training.coherent.writer import Writer
from hierarchos.training.graphs import DECAY_GROUPS, FIRST, GRADIENTS, PARAMETERS, SECOND, Update, update_graph
from hierarchos.training.settings import OptimizerSettings

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.training.coherent.sidecar import Flat
    from hierarchos.training.coherent.step import CoherentStep

DECAYED, PLAIN = 0, 1                               # groups of weight decay
MOMENTS = {"exp_avg": FIRST, "exp_avg_sq": SECOND}


class CoherentState:
    """Learned tensors, gradients and both moments on a device; the writer's status and the warm-up step of the gates beside them."""

    def __init__(self, cfg: Config, device, optimizer: OptimizerSettings, max_norm: float, trained: frozenset[str] | None = None):
        self.cfg, self.optimizer, self.writer = cfg, optimizer, Writer(**cfg.status)
        self.warmup_start = self.warmup_step = 0.0              # batches that the gates had seen before this run, and by now
        self.memory = Memory(cfg, device, training=True)
        self.store, self.specs = self.memory.store, parameters(cfg)
        self.trained = frozenset(spec.name for spec in self.specs) if trained is None else trained
        self.classes = {spec.name: "decay" if spec.decay else "no-decay" for spec in self.specs}
        self.step: CoherentStep | None = None                   # whose running state a checkpoint holds
        self.steps, self.session = 0, dict                      # optimizer steps; what a checkpoint says of schedules and data
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
            decayed = self.classes[spec.name] == "decay" and spec.name in self.trained
            groups[first:first + -(-spec.size // BLOCK)] = DECAYED if decayed else PLAIN
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
        o, self.steps = self.optimizer, step
        scalars = adamw_scalars(step, [(rate, o.weight_decay), (rate, 0.0)], (o.beta1, o.beta2), o.eps)
        return float(self._update.run({"scalars": scalars})["square_norm"][0]) ** 0.5

    def save(self, path: Path) -> None:
        """Writes a checkpoint's files into the folder of `path`, its model.safetensors; `sidecar` says which they are."""
        from hierarchos.hub.write import write_file
        from hierarchos.models.coherent_v9 import package
        from hierarchos.training.coherent import sidecar

        cfg, folder = Config(self.cfg.values, dict(vars(self.writer))), path.parent
        for name, content in package.config_files(cfg).items():
            write_file(folder / name, content)
        values = {spec.name: self.store.read(spec.name) for spec in self.specs}
        package.write_weights(path, cfg, values, package.fresh_buffers(cfg, self.warmup_step))
        steps = {spec.name: self.steps if self.has_gradient(spec.name) else 0 for spec in self.specs}
        sidecar.write_optimizer(folder / sidecar.OPTIMIZER, list(steps), self._flat, self.steps, steps, self.classes)
        extra = {"memory_gate_warmup_start": self.warmup_start, "trained": sorted(self.trained)}
        if self.step is not None and (running := self.step.running()) is not None:
            write_replay(folder, cfg, running)
        sidecar.write_training_state(folder, cfg, self.steps, len(steps), self.session(), extra)

    def _flat(self, name: str, kind: str) -> Flat:
        from hierarchos.training.coherent.sidecar import Flat

        held = f"{MOMENTS[kind]}/{name}"
        return Flat(lambda: self.store.read(held), self.store.layout.find(held).spec.size)

    def has_gradient(self, name: str) -> bool:
        """Whether steps change this tensor."""
        return name in self.trained and (self.cfg.ltm_value_alignment_weight > 0 or not name.startswith("val_proj."))

    def restore(self, path: Path) -> None:
        """Reads what `save` wrote; refuses a checkpoint of another model. Decay classes are those of the checkpoint."""
        from hierarchos.models.coherent_v9 import package
        from hierarchos.models.coherent_v9.contract import check_contract, contract_of
        from hierarchos.training.coherent import sidecar

        folder = path.parent
        side, found = sidecar.read_training_state(folder), contract_of(package.read_config(folder))
        check_contract(contract_of(self.cfg), found, None, str(folder), sidecar.NOT_STARTED)
        made = package.load(folder)
        sizes = {spec.name: spec.size for spec in self.specs}
        optimizer, self.classes = sidecar.read_optimizer(folder / sidecar.OPTIMIZER, sizes)
        running = read_replay(folder, self.cfg, self.step.rows) if self.step is not None and self.step.persist else None
        self.load(made.values)
        for kind, arena in MOMENTS.items():
            for spec in self.specs:
                self.store.write(f"{arena}/{spec.name}", optimizer.read(f"optimizer.{spec.name}.{kind}").reshape(spec.shape))
        self.store.write(DECAY_GROUPS, self._groups(self.store.layout.find(PARAMETERS).spec.size))
        self.writer, self.warmup_step = Writer(**made.config.status), float(made.buffers[package.WARMUP])
        self.warmup_start, self.steps = side["engine"]["memory_gate_warmup_start"], side["optimizer_step"]
        if running is not None:
            self.step.go_on(running)

    def first_bad(self, arena: str) -> str | None:
        """The first tensor of an arena, in model order, that holds a value that is not finite."""
        import numpy as np

        prefix = "" if arena == PARAMETERS else f"{arena}/"
        return next((spec.name for spec in self.specs if not np.isfinite(self.store.read(prefix + spec.name)).all()), None)

