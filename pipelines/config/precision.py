"""In which formats the numbers are computed and kept."""
from __future__ import annotations

from dataclasses import dataclass

from pipelines.config.setting import setting


@dataclass(frozen=True)
class PrecisionConfig:
    """Number formats: `precision=fp32`, `precision=bf16` or `precision=fp16` (docs/precision.md)."""

    compute: str = setting("fp32", choices=("fp32", "bf16", "fp16"), planned=("fp8", "int8", "tf32"))
    """Format of the operands of matrix products and attention, summed in fp32. Weights, moments, norms, softmax and the loss stay fp32."""

    base: str = setting("fp32", choices=("fp32", "fp16", "bf16", "int8", "int4"))
    """Format in which the frozen weights of linear layers lie on the device; computed with as fp32 (adapters, evaluate, generate)."""

    loss_scale: float = setting(65536.0, at_least=1)
    """fp16: the loss is multiplied by this before differentiation. Halved when a gradient overflows, and that step is skipped."""

    loss_scale_steps: int = setting(2000, at_least=1)
    """fp16: after so many steps without an overflow the loss scale is doubled."""
