"""The device layer: everything that touches Vulkan. Importing it loads no driver.

    for info in list_devices(): print(info.line())
    device = open_device("auto")
    memory = device.allocate(1 << 20, "parameters")
    device.upload(memory.address, array)
    recording = device.record([Dispatch(...), Fill(...), Copy(...)])
    recording.run()
"""
from __future__ import annotations

from importlib import import_module

_HOME = {
    "Shader": "commands", "Span": "commands", "Dispatch": "commands", "Fill": "commands", "Copy": "commands", "Command": "commands",
    "DeviceInfo": "info", "choose": "selection", "FailSubmit": "faults", "FailAllocation": "faults",
    "VulkanError": "errors", "NoVulkan": "errors", "NoDevice": "errors", "DeviceChoiceError": "errors", "OutOfMemory": "errors",
    "DeviceLost": "errors", "DeviceTimeout": "errors", "CallFailed": "errors",
    "list_devices": "instance", "validation_available": "instance", "open_device": "device", "Device": "device",
    "Allocation": "memory", "Recording": "recording", "device_rows": "describe",
    "Budget": "budget", "DoesNotFit": "budget", "budget_of": "budget",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name in _HOME:
        return getattr(import_module(f"hierarchos.vulkan.{_HOME[name]}"), name)
    raise AttributeError(f"module 'hierarchos.vulkan' has no attribute {name!r}")
