"""usage: hierarchos doctor [device=SELECT]

Looks at the Vulkan driver and the chosen device: limits, features that matter, a short numeric test against NumPy, a verdict.
"""
from __future__ import annotations

from hierarchos.errors import UserError
from pipelines.config.device import DeviceConfig
from pipelines.devices import find_device, open_selected
from pipelines.progress import Progress


def run(words: list[str]) -> int:
    """Prints facts and verdict; status 3 when a test fails."""
    config = DeviceConfig(select=selected(words))
    info = find_device(config)
    from hierarchos.vulkan.describe import device_facts

    Progress().table("", ["device", str(info.index)], [list(row) for row in device_facts(info)])
    device = open_selected(config)
    try:
        failed = numeric_test(device)
    finally:
        device.close()
    print("\nverdict: " + (failed or f"{info.name} can be used" + (" (software: slow, for tests)" if info.software else "")))
    return 3 if failed else 0


def selected(words: list[str]) -> str:
    """The value of device=SELECT; auto without it."""
    for word in words:
        if not word.startswith(("device=", "device.select=")):
            raise UserError(f"{word} is not understood", where="command line", hint="it takes device=SELECT")
    return words[-1].partition("=")[2] if words else "auto"


def numeric_test(device: object) -> str | None:
    """What the self-test of the engine found wrong; None when all is right."""
    try:
        from validation.selftest import selftest
    except ImportError:
        return upload_test(device)
    return selftest(device)


def upload_test(device: object) -> str | None:
    """Memory that is written comes back as it was."""
    import numpy as np

    values = np.arange(1 << 16, dtype=np.float32)
    memory = device.allocate(values.nbytes, "doctor")
    device.upload(memory.address, values)
    found = np.asarray(device.download(memory.address, values.nbytes)).view(np.float32)
    return None if np.array_equal(found, values) else "memory written to the device comes back changed; update its driver"
