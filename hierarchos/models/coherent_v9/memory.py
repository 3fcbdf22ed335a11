"""The fast memory: what is written over the learned slots at run time, by gradients or by values. Host arithmetic, rows apart or shared."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.models.coherent_v9.config import Config

if TYPE_CHECKING:
    import numpy as np

BOUND = 50.0
WRITER_BOUND = 20.0                     # of a value before it is written
UNKNOWN, USER, TRAINING, CORRECTION = range(4)      # where an entry came from


@dataclass(eq=False)
class FastMemory:
    """values, momentum [S,V] or [B,S,V]; timestamps f32 (tokens), sources i64 and wallclock f64 (seconds; 0: not told) [S] or [B,S]."""

    values: np.ndarray
    momentum: np.ndarray
    timestamps: np.ndarray
    sources: np.ndarray
    wallclock: np.ndarray | None = None

    def __post_init__(self):
        import numpy as np

        self.wallclock = np.zeros(self.timestamps.shape) if self.wallclock is None else self.wallclock

    @classmethod
    def empty(cls, cfg: Config, rows: int | None = None, dtype: str = "float32") -> FastMemory:
        """Nothing written yet; rows: a memory for each row."""
        import numpy as np

        lead = () if rows is None else (rows,)
        shape = (*lead, cfg.ltm_slots, cfg.ltm_val_dim)
        return cls(np.zeros(shape, dtype), np.zeros(shape, dtype), np.zeros(shape[:-1], dtype), np.zeros(shape[:-1], np.int64))

    @classmethod
    def of_package(cls, cfg: Config, buffers: Mapping[str, np.ndarray], rows: int | None = None) -> FastMemory:
        """What a package holds, for each row anew; an inference export holds nothing."""
        import numpy as np

        held = [np.asarray(buffers[name], np.float32) for name in ("ltm.fast_vals", "ltm._mom_vals", "ltm.timestamps")]
        held.append(np.zeros(cfg.ltm_slots, np.int64))
        return cls(*(array.copy() if rows is None else np.repeat(array[None], rows, 0) for array in held))

    def copy(self) -> FastMemory:
        return FastMemory(*(array.copy() for array in (self.values, self.momentum, self.timestamps, self.sources, self.wallclock)))

    @property
    def shared(self) -> bool:
        return self.values.ndim == 2

    def write(self, cfg: Config, index: np.ndarray, gradients: np.ndarray, rate: float, covered: int, timestamp: float,
              source: int, wallclock: float | None = None) -> None:
        """One update. index [B,...,K] (-1: ignored), gradients [B,...,K,V] of the retrieved values; covered: tokens that it stands for."""
        for at in [()] if self.shared else [(row,) for row in range(len(self.values))]:
            slots = self._write(cfg, at, index[at].reshape(-1), gradients[at].reshape(-1, gradients.shape[-1]), rate, covered)
            self.timestamps[at][slots] = timestamp
            self.sources[at][slots] = source
            if wallclock is not None:
                self.wallclock[at][slots] = wallclock

    def _write(self, cfg: Config, at: tuple, index, gradients, rate: float, covered: int) -> np.ndarray:
        """Values and momentum; returns the slots that were touched."""
        import numpy as np

        valid = index >= 0
        if not valid.any():
            return np.zeros(0, np.int64)
        values, momentum = self.values[at], self.momentum[at]
        slots, where = np.unique(index[valid], return_inverse=True)
        total = np.zeros((len(slots), values.shape[-1]), values.dtype)
        np.add.at(total, where, gradients[valid].astype(values.dtype))
        mean = total / (np.bincount(where, minlength=len(slots))[:, None] + 1e-8).astype(values.dtype)
        kept = values.dtype.type((1.0 - cfg.ltm_forget_rate) ** (covered / cfg.reference_chunk_len))
        before = values[slots].copy()
        momentum *= values.dtype.type(cfg.ltm_momentum)
        values *= kept
        momentum[slots] = np.clip(momentum[slots] + mean, -BOUND, BOUND)
        change = values.dtype.type(rate) * (momentum[slots] + values.dtype.type(cfg.ltm_weight_decay) * before)
        values[slots] = np.clip(kept * before - change, -BOUND, BOUND)
        return slots

    def allowed(self, rows: int, source: int | None = None, earliest: float = 0.0, since: float = 0.0) -> np.ndarray:
        """f32 [rows,S]: slots that may be read, by source, by age in tokens and by the clock on the wall (seconds)."""
        import numpy as np

        open_ = np.ones(self.sources.shape, bool)
        open_ &= True if source is None else self.sources == source
        open_ &= True if earliest <= 0 else self.timestamps >= earliest
        open_ &= True if since <= 0 else self.wallclock >= since
        return np.broadcast_to(open_, (rows, open_.shape[-1])).astype(np.float32).copy()


def prepared_gradients(gradients: np.ndarray, clip: float) -> np.ndarray:
    """Gradients of retrieved values, each clipped, then all scaled to the norm `clip` at most. Raises UserError where one is not finite."""
    import numpy as np

    if not np.isfinite(gradients).all():
        raise UserError("a gradient of the fast memory is not finite", where="inner update", outcome="nothing was written to the memory")
    clipped = np.clip(gradients, -clip, clip)
    norm = float(np.sqrt((clipped.astype(np.float64) ** 2).sum()))
    return clipped * clipped.dtype.type(min(1.0, clip / (norm + 1e-8)))


def may_write(cfg: Config) -> bool:
    """Whether values may be written at inference: the writer was trained, or the configuration does not mind."""
    return bool(cfg.status.get("val_proj_trained")) or cfg.allow_untrained_hebbian_writer


def writer_values(weight: np.ndarray, out: np.ndarray) -> np.ndarray:
    """What the value writer makes of outputs [B,C]: [B,V], limited."""
    import numpy as np

    return np.clip(out @ weight.T, -WRITER_BOUND, WRITER_BOUND)
