"""What a device sets limits to."""
from __future__ import annotations

from hierarchos.errors import UserError
from hierarchos.kernels.wkv import MOST_CHANNELS
from hierarchos.models.coherent_v9.config import Config


def check_heads(cfg: Config) -> None:
    """Raises UserError where a head has more channels than the kernel of the matrix state takes."""
    for cell, width in (("h", cfg.h_hidden), ("l", cfg.l_hidden)):
        size = cfg[f"{cell}_rwkv_head_size"]
        if size > MOST_CHANNELS:
            fitting = max(n for n in range(1, MOST_CHANNELS + 1) if width % n == 0)
            raise UserError(f"a head of {size} channels is more than the {MOST_CHANNELS} that a device takes", where="model.config",
                            nearest=f"rwkv_head_size={fitting}")
