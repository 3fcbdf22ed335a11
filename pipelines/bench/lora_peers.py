"""The other sides of `hierarchos bench lora`: PEFT on the processor, each number format in a process of its own."""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.bench.peers import missing, why

if TYPE_CHECKING:
    import numpy as np

PACKAGES, MODULE = ("torch", "transformers", "peft"), "validation.bench_lora"
PRECISIONS = ("fp32", "bf16")


def measure(base: Path, adapter: Path, ids: np.ndarray, work: Path, rate: float) -> tuple[list[dict], list[str]]:
    """What each side found, and why one is not there, in words."""
    if (reason := missing(MODULE, *PACKAGES)) is not None:
        return [], [reason]
    import numpy as np

    np.save(work / "ids.npy", ids)
    sides, told = [], []
    for precision in PRECISIONS:
        done = subprocess.run([sys.executable, "-m", MODULE, str(base), str(adapter), str(work / "ids.npy"), "--precision", precision,
                               "--rate", str(rate)], capture_output=True, text=True, check=False)
        if done.returncode:
            told.append(f"PEFT in {precision.upper()} gave no figures: {why(done)}")
        else:
            sides.append(json.loads(done.stdout.splitlines()[-1]))
    return sides, told
