"""The chosen device: found before a run starts, opened when a stage needs it."""
from __future__ import annotations

from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.config.device import DeviceConfig

if TYPE_CHECKING:
    from hierarchos.vulkan import Device, DeviceInfo


OTHER_WORLDS = "everything is computed through Vulkan, and devices have the names above; a software device uses the processor"


def selector(select: str) -> str:
    """What the device layer takes: "vulkan:1" is device 1."""
    return select.removeprefix("vulkan:") if select.lower().startswith("vulkan:") else select


def find_device(config: DeviceConfig) -> DeviceInfo:
    """The device that the settings name; UserError with what there is when there is none such. Opens nothing."""
    from hierarchos.vulkan import DeviceChoiceError, NoDevice, NoVulkan, choose, list_devices

    try:
        return choose(selector(config.select), list_devices())
    except (DeviceChoiceError, NoDevice, NoVulkan) as error:
        first, *rest = str(error).splitlines()
        others = [OTHER_WORLDS] if config.select.lower() in ("cpu", "cuda", "gpu", "rocm", "mps", "numpy", "vulkan") else []
        raise UserError(first, where="device.select", hint=[line.strip() for line in rest] + others) from None


def open_selected(config: DeviceConfig) -> Device:
    """Opens the device that the settings name."""
    from hierarchos.vulkan import open_device

    device = open_device(selector(config.select), config.validation)
    if config.max_submit_ms is not None:
        device.max_submit_seconds = config.max_submit_ms / 1000
    device.split = config.split_products
    return device


def first_line(info: DeviceInfo) -> str:
    """What a run says first: the device, and that a software device is slow."""
    slow = " (software: slow, for tests)" if info.software else ""
    return f"device: {info.name}, {info.kind}, {info.driver}{slow}" if not slow else f"device: {info.name}, {info.driver}{slow}"


def facts(info: DeviceInfo) -> dict:
    """What run.json keeps about the device."""
    return {"name": info.name, "kind": info.kind, "driver": info.driver, "driver_version": info.driver_version,
            "api_version": info.api_version}
