"""Where the numbers are computed."""
from __future__ import annotations

from dataclasses import dataclass

from pipelines.config.setting import setting


@dataclass(frozen=True)
class DeviceConfig:
    """The Vulkan device; `hierarchos devices` lists them. `device=VALUE` is short for `device.select=VALUE`."""

    select: str = setting("auto")
    """auto (discrete, integrated, virtual, then software), an index, "vulkan:1", or part of a name such as "uhd 630"."""

    max_submit_ms: float | None = setting(None, above=0)
    """Longest stretch of GPU time handed over at once, in milliseconds, so that a desktop keeps running; null: by kind of device."""

    autotune: bool | None = setting(None)
    """Measures the tiles of matrix products before training, once for each product, device and driver; the choices are kept in the cache
    and in run.json, and a resumed run follows them. They change results by rounding. null: on GPUs, not on software devices."""

    split_products: bool = setting(True)
    """fp32 matrix products as three products of float16 halves on matrix units, where the device has them and they are faster. The error
    stays below that of PyTorch's fp32; false: fp32 multiply-adds throughout."""

    ignore_heap: bool = setting(False)
    """Starts a run that needs more memory than the driver reports. Some give more than they report: Mesa 22.3's software driver does."""

    validation: bool = setting(False)
    """Loads the Vulkan validation layers (slow; for finding driver and kernel errors)."""
