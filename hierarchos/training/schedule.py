"""Learning rate as a function of the step: warm-up, then constant, linear or cosine decay."""
from __future__ import annotations

import math


def warmup_steps(warmup: float, total_steps: int) -> int:
    """A warm-up below 1 is a ratio of all steps (rounded up), from 1 on a number of steps."""
    return math.ceil(warmup * total_steps) if warmup < 1 else int(warmup)


def learning_rate(step: int, total_steps: int, peak: float, schedule: str, warmup: float = 0.0, floor: float = 0.0) -> float:
    """Learning rate of optimizer step `step` (0-based), as Transformers' schedules of the same names give it.

    peak: the highest rate. warmup: steps, or a ratio of all steps when below 1; the rate rises linearly from 0.
    schedule: "constant", "linear" (to `floor` * peak at the end) or "cosine" (half a period, to `floor` * peak).
    """
    rising = warmup_steps(warmup, total_steps)
    if step < rising:
        return peak * step / max(1, rising)
    progress = min(1.0, (step - rising) / max(1, total_steps - rising))
    shape = {"constant": 1.0, "linear": 1.0 - progress, "cosine": 0.5 * (1.0 + math.cos(math.pi * progress))}[schedule]
    return peak * (floor + (1.0 - floor) * shape) if schedule != "constant" else peak
