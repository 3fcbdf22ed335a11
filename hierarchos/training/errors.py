"""What stops a training run, as errors that say where to go on from."""
from __future__ import annotations

from hierarchos.training.checkpoint import Checkpoint


class NotFinite(RuntimeError):
    """A loss or a gradient is NaN or infinite. `step` is the step that was not done; the weights are those before it."""

    def __init__(self, step: int, loss: float, gradient_norm: float, weight: str | None, gradient: str | None, good: Checkpoint | None,
                 half: bool = False):
        self.step, self.weight, self.gradient, self.good = step, weight, gradient, good
        lines = [f"step {step}: the loss is {loss:g} and the gradient norm {gradient_norm:g}; the step was not applied"]
        if weight:
            lines.append(f"first bad tensor: the weight {weight} (it was so before this step)")
        elif gradient:
            lines.append(f"first bad tensor: the gradient of {gradient}")
        lines.append(f"last good checkpoint: step {good.step}, {good.path}" if good else "no checkpoint had been written yet")
        if half:
            lines.append("fp16 holds nothing above 65504; precision=bf16 has the range of fp32")
        lines.append("a lower train.learning_rate, a longer train.schedule.warmup or train.max_grad_norm=1.0 help most often")
        super().__init__("\n  ".join(lines))
