"""usage: hierarchos devices [--json]

Lists the Vulkan devices: index, name, kind, driver, memory, and whether they can be used.
"""
from __future__ import annotations

import json

from hierarchos.errors import UserError
from pipelines.commands.words import take


def run(words: list[str]) -> int:
    """Prints the table, or JSON."""
    flags, _ = take(words, "--json")
    from hierarchos.vulkan import NoVulkan, list_devices
    from hierarchos.vulkan.describe import HEADINGS, device_rows

    try:
        devices = list_devices()
    except NoVulkan as error:
        first, *rest = str(error).splitlines()
        raise UserError(first, hint=[line.strip() for line in rest], outcome=None) from None
    if "--json" in flags:
        print(json.dumps([dict(zip(HEADINGS, row, strict=True)) for row in device_rows(devices)], indent=1))
        return 0
    if not devices:
        print("no Vulkan device; a driver brings one (Debian, Ubuntu: apt install mesa-vulkan-drivers)")
        return 0
    for device, row in zip(devices, device_rows(devices), strict=True):
        known = dict(zip(HEADINGS, row, strict=True))
        able = "usable" if device.usable else f"not usable: lacks {', '.join(device.missing)}"
        print(f"{known['index']}  {known['name']}  ({known['kind']}, {able})")
        print(f"   {known['driver']}, Vulkan {known['Vulkan']}, {known['memory']}")
    print('\ndevice=INDEX or device="PART OF THE NAME" chooses one; auto prefers\ndiscrete, integrated, virtual, then software devices')
    return 0
