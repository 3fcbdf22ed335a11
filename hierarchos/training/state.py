"""What training keeps on the device: parameters, gradients and moments in arenas of one layout."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Spec
from hierarchos.kernels.optimizer import BLOCK, GROUP_CODES
from hierarchos.models.family import Model
from hierarchos.nn.stored import as_stored, place_of
from hierarchos.nn.weights import ParameterSpec
from hierarchos.training.graphs import CARRY, DECAY_GROUPS, FIRST, FROZEN, GRADIENTS, PARAMETERS, SECOND
from hierarchos.training.groups import carries, group_of, groups_of
from hierarchos.training.precision import FP32, LOSS_SCALE, SCALING, Precision
from hierarchos.training.settings import OptimizerSettings

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.vulkan import Device

DECAY = "decay"                                     # arena of DECAY_GROUPS
OPTIONAL = SCALING, CARRY                           # of a state file: a run begun in another precision has no loss scale


class TrainingState:
    """Parameters and optimizer state of one model on one device. optimizer None: parameters only, to measure a loss.

    specs: of the trained parameters, which a checkpoint holds; frozen: of those that stay as they are."""

    def __init__(self, model: Model, device: Device, optimizer: OptimizerSettings | None, precision: Precision = FP32):
        self.model, self.device, self.optimizer, self.precision = model, device, optimizer, precision
        parameters = model.parameters
        self.specs, self.frozen = ([spec for spec in parameters if spec.trained is trained] for trained in (True, False))
        self.groups = groups_of(self.specs, optimizer) if optimizer else ()
        self.store = StateStore(device)
        self.floats = allocate_state(self.store, parameters, optimizer, precision)
        self.moments = tuple(arena for arena in (FIRST, SECOND, CARRY) if arena in self.store.layout.arenas)
        if optimizer:
            self.store.write(DECAY_GROUPS, self.decay_groups())
        if optimizer and precision.scaled:
            self.store.write(LOSS_SCALE, [precision.loss_scale])

    def decay_groups(self) -> np.ndarray:
        """u32 [floats / BLOCK]: the number of each parameter's group, and where it carries its rounding."""
        import numpy as np

        groups = np.zeros(self.floats // BLOCK, np.uint32)
        for spec in self.specs:
            first = self.store.layout.find(spec.name).offset // (4 * BLOCK)
            blocks = np.arange(-(-spec.size // BLOCK), dtype=np.uint32)
            groups[first + blocks] = self.groups.index(group_of(spec, self.optimizer))
            if carries(spec, self.optimizer):
                kept = self.store.layout.find(f"{CARRY}/{spec.name}").offset // (4 * BLOCK)
                groups[first + blocks] += GROUP_CODES * (1 + kept + blocks)
        return groups

    def load(self, values: Mapping[str, np.ndarray]) -> None:
        """Writes initial or pretrained parameters, by name; moments start at zero."""
        self.load_frozen(values)
        for spec in self.specs:
            self.store.write(spec.name, values[spec.name])

    def load_frozen(self, values: Mapping[str, np.ndarray]) -> None:
        """Writes the parameters that are not trained: a checkpoint does not hold them."""
        for spec in self.frozen:
            self.store.write(spec.name, as_stored(spec, values[spec.name]))

    def entries(self) -> Iterator[tuple[str, str]]:
        """(name in a state file, name in the store) of all that a checkpoint holds."""
        for arena in (PARAMETERS, *self.moments):
            for spec in self.specs:
                if arena != CARRY or carries(spec, self.optimizer):
                    yield f"{arena}/{spec.name}", spec.name if arena == PARAMETERS else f"{arena}/{spec.name}"
        for name in self.precision.states if self.optimizer else ():
            yield f"{SCALING}/{name}", name

    def save(self, path: Path) -> None:
        """Writes the state file of a checkpoint, one tensor after the other."""
        from hierarchos.hub.write import write_tensors

        write_tensors(path, {name: StoredTensor(self.store, held) for name, held in self.entries()})

    def restore(self, path: Path) -> None:
        """Reads a state file that `save` wrote; what it holds no carry of starts at zero."""
        from safetensors import safe_open

        if CARRY in self.moments:
            self.store.zero(CARRY)
        with safe_open(path, framework="numpy") as file:
            there = set(file.keys())
            for name, held in self.entries():
                if name in there or not name.startswith(OPTIONAL):
                    self.store.write(held, file.get_tensor(name))

    def first_bad(self, arena: str) -> str | None:
        """The first tensor of an arena, in model order, that holds a value that is not finite."""
        import numpy as np

        prefix = "" if arena == PARAMETERS else f"{arena}/"
        return next((spec.name for spec in self.specs if not np.isfinite(self.store.read(prefix + spec.name)).all()), None)


class StoredTensor:
    """A tensor of a store that is read from the device only when it is written to a file."""

    def __init__(self, store: StateStore, name: str):
        import numpy as np

        self.store, self.name = store, name
        spec = store.layout.find(name).spec
        self.shape, self.nbytes, self.dtype = spec.shape, spec.nbytes, np.dtype(np.float32)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.store.read(self.name)


def allocate_state(store: StateStore | StoreLayout, specs: Sequence[ParameterSpec], optimizer: OptimizerSettings | None,
                   precision: Precision = FP32) -> int:
    """Makes the arenas of training (of evaluation, without an optimizer) on a device, or only their layout; returns the floats of each."""
    layout = store if isinstance(store, StoreLayout) else store.layout
    frozen = {spec.name: place_of(spec) for spec in specs if not spec.trained}
    if frozen:
        store.allocate(FROZEN, frozen)
    store.allocate(PARAMETERS, {spec.name: Spec(spec.shape) for spec in specs if spec.trained})
    floats = layout.find(PARAMETERS).spec.size
    if optimizer:
        for arena in (GRADIENTS, *moment_arenas(optimizer)):
            store.mirror(arena, of=PARAMETERS)
        vectors = {f"{CARRY}/{spec.name}": Spec(spec.shape) for spec in specs if carries(spec, optimizer)}
        if vectors:
            store.allocate(CARRY, vectors)
        store.allocate(DECAY, {DECAY_GROUPS: Spec((floats // BLOCK,), "u32")})
        if precision.scaled:
            store.allocate(SCALING, precision.states)
    return floats


def moment_arenas(optimizer: OptimizerSettings) -> tuple[str, ...]:
    """The arenas that the optimizer keeps beside parameters and gradients."""
    if optimizer.name == "adamw":
        return FIRST, SECOND
    return (FIRST,) if optimizer.momentum else ()
