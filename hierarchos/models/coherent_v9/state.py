"""The carried state: its parts by name, packed and unpacked as files and fixtures hold it."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hierarchos.models.coherent_v9.cell import SLOTS, CellState
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.prepare import cells
from hierarchos.models.coherent_v9.token import Recurrent

if TYPE_CHECKING:
    import numpy as np

CONTEXTS = ("previous", "target", "drift")
PACKED = {"h_state": "h", "l_state": "l", "prev_context": "previous", "target_context": "target", "drift_state": "drift"}
# parts whose gradient passes from token to token: nothing reads the others in a later token
DIFFERENTIABLE = ("h.n1", "h.n2", "h.M", "l.n1", "l.n2", "l.out", "l.M", "previous", "target")


def state_shapes(cfg: Config, batch: int) -> dict[str, tuple[int, ...]]:
    """Shapes of all parts, `h.n1` ... `l.M`, then the contexts and the drift."""
    shapes = {f"{cell.name}.{slot}": shape for cell in cells(cfg) for slot, shape in cell.state(batch).items()}
    return shapes | dict.fromkeys(CONTEXTS, (batch, cfg.context_dim))


def recurrent(part: Callable[[str], object]) -> Recurrent:
    """The state from its parts by name."""
    h, l = (CellState(*(part(f"{cell}.{slot}") for slot in SLOTS)) for cell in "hl")
    return Recurrent(h, l, *map(part, CONTEXTS))


def parts_of(state: Recurrent) -> dict[str, object]:
    """The parts of a state by name."""
    found = {f"{cell}.{slot}": getattr(getattr(state, cell), slot) for cell in "hl" for slot in SLOTS}
    return found | {name: getattr(state, name) for name in CONTEXTS}


def zeros(cfg: Config, batch: int, dtype: str = "float32") -> dict[str, np.ndarray]:
    """The state before the first token."""
    import numpy as np

    return {name: np.zeros(shape, dtype) for name, shape in state_shapes(cfg, batch).items()}


def pack(parts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """h_state [B,C,4+N], l_state [B,Lw,4+N], prev_context, target_context, drift_state [B,C]."""
    import numpy as np

    packed = {name: np.asarray(parts[own]) for name, own in PACKED.items() if own in CONTEXTS}
    for name in ("h_state", "l_state"):
        cell = PACKED[name]
        vectors = [np.asarray(parts[f"{cell}.{slot}"])[..., None] for slot in SLOTS[:4]]
        packed[name] = np.concatenate([*vectors, np.asarray(parts[f"{cell}.M"])], -1)
    return packed


def unpack(cfg: Config, packed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parts of a packed state, with the clamps of entry applied."""
    import numpy as np

    parts = {}
    for name in ("h_state", "l_state"):
        array = np.asarray(packed[name])
        parts |= {f"{PACKED[name]}.{slot}": np.ascontiguousarray(array[..., i]) for i, slot in enumerate(SLOTS[:4])}
        parts[f"{PACKED[name]}.M"] = np.ascontiguousarray(array[..., 4:])
    parts |= {own: np.asarray(packed[name]) for name, own in PACKED.items() if own in CONTEXTS}
    return clamped(cfg, parts)


def clamped(cfg: Config, parts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A given state with the clamps of entry applied."""
    contexts = dict(zip(CONTEXTS, (cfg.context_state_clamp, cfg.context_state_clamp, cfg.drift_state_clamp), strict=True))
    return {name: within(array, contexts.get(name, cfg.recurrent_state_clamp)) for name, array in parts.items()}


def within(x: np.ndarray, bound: float) -> np.ndarray:
    """Finite values limited to -bound .. bound; others as they are."""
    import numpy as np

    return np.where(np.isfinite(x), np.clip(x, -bound, bound), x)
