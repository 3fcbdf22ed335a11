"""What can go wrong with a device, as exceptions whose message says what to do."""
from __future__ import annotations


class VulkanError(Exception):
    """Base of every error of the device layer."""


class NoVulkan(VulkanError):
    """The Vulkan loader library is not installed."""

    def __init__(self):
        super().__init__(
            "no Vulkan loader is installed (libvulkan.so.1 / vulkan-1.dll / libvulkan.dylib)\n"
            "  Debian, Ubuntu:  apt install libvulkan1 mesa-vulkan-drivers\n"
            "  Windows: the graphics driver brings it;  macOS: install the Vulkan SDK or MoltenVK")


class NoDevice(VulkanError):
    """No device, or none that can run this program. `found` holds one line for each device that was seen."""

    def __init__(self, found: list[str] = ()):
        seen = "".join(f"\n  {line}" for line in found) or "\n  (none)"
        super().__init__(
            f"no usable Vulkan device; found:{seen}\n"
            "  install a driver (Debian, Ubuntu: apt install mesa-vulkan-drivers, which also brings a software device)\n"
            "  then look again with: hierarchos devices")


class DeviceChoiceError(VulkanError, ValueError):
    """The asked device is not there, is ambiguous, or lacks a required feature."""


class OutOfMemory(VulkanError):
    """A device allocation failed. `label` and `nbytes` say which."""

    def __init__(self, label: str, nbytes: int, used: int, heap: int, limit: int, largest: list[tuple[str, int]]):
        self.label, self.nbytes, self.used, self.heap, self.limit = label, nbytes, used, heap, limit
        held = ", ".join(f"{name} {megabytes(size)}" for name, size in largest) or "nothing"
        super().__init__(
            f"out of device memory: {label} needs {megabytes(nbytes)}\n"
            f"  in use {megabytes(used)} of a {megabytes(heap)} heap ({held}); one allocation may have at most {megabytes(limit)}\n"
            "  lower the batch size or the sequence length, recompute activations, or choose a device with more memory")


class BufferTooLarge(OutOfMemory):
    """One tensor is larger than any buffer of the device; found by planning, before anything was allocated."""

    def __init__(self, label: str, nbytes: int, limit: int):
        super().__init__(label, nbytes, 0, 0, limit, [])
        self.args = (f"{label} needs a buffer of {megabytes(nbytes)}; the device gives at most {megabytes(limit)} at once\n"
                     "  lower the batch size or the sequence length; nothing was allocated",)


class DeviceLost(VulkanError):
    """The driver gave up on the device during a submission. Nothing on the device can be read any more."""

    def __init__(self, label: str, kernels: list[str] = ()):
        self.label, self.kernels = label, list(kernels)
        largest = "".join(f"\n  {line}" for line in kernels)
        listed = f"; its largest kernels by estimate:{largest}" if kernels else ""
        super().__init__(
            f"the device was lost while running {label!r}{listed}\n"
            "  the usual causes are a kernel that ran longer than the driver's watchdog allows, or a driver fault\n"
            "  lower the batch size or sequence length, or shorten submissions; files on disk are untouched")


class DeviceTimeout(VulkanError):
    """The device did not finish in the time that the caller allowed; it may still be running."""


class CallFailed(VulkanError):
    """A Vulkan call returned an error that has no better explanation here."""

    def __init__(self, call: str, result: str):
        self.call, self.result = call, result
        super().__init__(f"{call} failed with {result}")


def megabytes(nbytes: int) -> str:
    """Human-readable size: `12.0 MiB`, `1.50 GiB`, `96 bytes`."""
    if nbytes < 1 << 12:
        return f"{nbytes} bytes"
    if nbytes < 1 << 20:
        return f"{nbytes / 2**10:.1f} KiB"
    if nbytes < 1 << 30:
        return f"{nbytes / 2**20:.1f} MiB"
    return f"{nbytes / 2**30:.2f} GiB"


def mebibytes(nbytes: int) -> str:
    """A size in one unit, for numbers that are added or compared: `2126.9 MiB`; `1.5 KiB` where MiB would say nothing."""
    return f"{nbytes / 2**20:.1f} MiB" if nbytes >= 1 << 20 else f"{nbytes / 2**10:.1f} KiB"
