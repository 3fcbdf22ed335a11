"""Whether the memory's value writer has learned enough to be used: a running mean of its alignment cost after each update."""
from __future__ import annotations

import math
from dataclasses import dataclass

from hierarchos.models.coherent_v9.config import Config


@dataclass
class Writer:
    """Status fields of a configuration, under their names there."""

    val_proj_alignment_updates: int = 0
    val_proj_alignment_last: float | None = None
    val_proj_alignment_ema: float | None = None
    val_proj_alignment_best: float | None = None
    val_proj_writer_norm: float | None = None
    val_proj_trained: bool = False

    def update(self, cfg: Config, score: float, norm: float) -> None:
        """After an optimizer step: score is the batch's alignment cost, norm the writer's Frobenius norm."""
        decay, before = cfg.ltm_value_alignment_ema_decay, self.val_proj_alignment_ema
        self.val_proj_alignment_updates += 1
        self.val_proj_alignment_last = score
        self.val_proj_alignment_ema = score if before is None else decay * before + (1 - decay) * score
        best = self.val_proj_alignment_best
        self.val_proj_alignment_best = score if best is None else min(best, score)
        self.val_proj_writer_norm = norm
        most = cfg.ltm_value_writer_max_norm
        self.val_proj_trained = (self.val_proj_alignment_updates >= cfg.ltm_value_alignment_min_updates
                                 and self.val_proj_alignment_ema <= cfg.ltm_value_alignment_ready_threshold
                                 and (most <= 0 or norm <= most) and math.isfinite(norm))
