"""Whether the chosen device computes in the chosen format, and what a run says about it."""
from __future__ import annotations

from typing import TYPE_CHECKING

from hierarchos.errors import UserError

if TYPE_CHECKING:
    from hierarchos.vulkan import DeviceInfo
    from pipelines.config.precision import PrecisionConfig

DTYPES = {"bf16": "bf16", "fp16": "f16"}            # precision.compute -> name of the format in DeviceInfo.matrices


def check_precision(precision: PrecisionConfig, device: DeviceInfo) -> None:
    """Raises UserError, with the formats that there are, where the device lacks the one that was asked for."""
    if precision.compute not in device.formats:
        raise UserError(f"{device.name} cannot compute in {precision.compute}: it has no 16-bit storage", where="precision.compute",
                        hint=f"it has {', '.join(device.formats)}", command=f"precision={device.formats[0]}")


def precision_line(precision: PrecisionConfig, device: DeviceInfo) -> str | None:
    """How products are computed, in one line; None for fp32."""
    if precision.compute == "fp32":
        return None
    shapes = [f"{m}x{n}x{k}" for format_, m, n, k in device.matrices if format_ == DTYPES[precision.compute]]
    if shapes and not device.software:
        return f"precision: {precision.compute} on matrix units ({shapes[0]}), sums in fp32"
    return f"precision: {precision.compute} without matrix units: operands are rounded to it, then multiplied in fp32 (no faster)"
