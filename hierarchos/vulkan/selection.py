"""Which device is meant: pure choice among what is there."""
from __future__ import annotations

from collections.abc import Sequence

from hierarchos.vulkan.errors import DeviceChoiceError, NoDevice
from hierarchos.vulkan.info import DeviceInfo

PREFERENCE = ("discrete", "integrated", "virtual", "software")


def choose(selector: str | int, devices: Sequence[DeviceInfo]) -> DeviceInfo:
    """The device that `selector` names.

    "auto": the first usable one, discrete before integrated before virtual before software; an int or a string of
    digits: the index; anything else: a part of the name, in any case. Raises NoDevice or DeviceChoiceError."""
    usable = [device for device in devices if device.usable]
    if not usable:
        raise NoDevice([device.line() for device in devices])
    asked = str(selector).strip()
    if asked.lower() in ("", "auto"):
        return preferred(usable)
    matches = by_index(int(asked), devices) if asked.isdecimal() else by_name(asked, devices)
    if len(matches) != 1:
        problem = "no device matches" if not matches else f"{len(matches)} devices match"
        raise DeviceChoiceError(explain(f"{problem} device={asked}", devices))
    if matches[0].missing:
        raise DeviceChoiceError(explain(f"device={asked} is {matches[0].name}, which lacks {', '.join(matches[0].missing)}", devices))
    return matches[0]


def preferred(usable: Sequence[DeviceInfo]) -> DeviceInfo:
    """What "auto" means."""
    return min(usable, key=lambda device: (PREFERENCE.index(device.kind), device.index))


def by_index(index: int, devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    return [device for device in devices if device.index == index]


def by_name(part: str, devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """Devices whose name holds `part`; a whole name wins over parts of others."""
    whole = [device for device in devices if device.name.lower() == part.lower()]
    return whole or [device for device in devices if part.lower() in device.name.lower()]


def explain(problem: str, devices: Sequence[DeviceInfo]) -> str:
    """The message of a wrong choice: the problem, what there is, what to type."""
    there = "".join(f"\n  {device.line()}" for device in devices)
    best = preferred([device for device in devices if device.usable])
    return f"{problem}; there is:{there}\n  type device=auto, an index (device={best.index}) or a part of one name"
