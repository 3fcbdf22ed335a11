"""The fast memory: what is written over the learned slots at run time, by gradients or by values. Host arithmetic, rows apart or shared."""
from __future__ import annotations

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
    """values, momentum [S,V] or [B,S,V]; timestamps f32 and sources i64 [S] or [B,S]."""

    values: np.ndarray
    momentum: np.ndarray
    timestamps: np.ndarray
    sources: np.ndarray

    @classmethod
    def empty(cls, cfg: Config, rows: int | None = None, dtype: str = "float32") -> FastMemory:
        """Nothing written yet; rows: a memory for each row."""
        import numpy as np

        lead = () if rows is None else (rows,)
        shape = (*lead, cfg.ltm_slots, cfg.ltm_val_dim)
        return cls(np.zeros(shape, dtype), np.zeros(shape, dtype), np.zeros(shape[:-1], dtype), np.zeros(shape[:-1], np.int64))

    @property
    def shared(self) -> bool:
        return self.values.ndim == 2

    def write(self, cfg: Config, index: np.ndarray, gradients: np.ndarray, rate: float, covered: int, timestamp: float,
              source: int) -> None:
        """One update. index [B,...,K] (-1: ignored), gradients [B,...,K,V] of the retrieved values; covered: tokens that it stands for."""
        if self.shared:
            self._write(cfg, (), index.reshape(-1), gradients.reshape(-1, gradients.shape[-1]), rate, covered, timestamp, source)
            return
        for row in range(len(self.values)):
            flat = gradients[row].reshape(-1, gradients.shape[-1])
            self._write(cfg, (row,), index[row].reshape(-1), flat, rate, covered, timestamp, source)

    def _write(self, cfg, at, index, gradients, rate, covered, timestamp, source) -> None:
        import numpy as np

        valid = index >= 0
        if not valid.any():
            return
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
        self.timestamps[at][slots] = timestamp
        self.sources[at][slots] = source

    def allowed(self, rows: int, source: int | None = None, earliest: float = 0.0) -> np.ndarray:
        """f32 [rows,S]: slots that may be read, by source and by age."""
        import numpy as np

        open_ = np.ones(self.sources.shape, bool)
        open_ &= True if source is None else self.sources == source
        open_ &= True if earliest <= 0 else self.timestamps >= earliest
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
