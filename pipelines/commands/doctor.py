"""usage: hierarchos doctor [device=SELECT]

Looks at the Vulkan driver and the chosen device: limits, features that matter, a two-second numeric test, a verdict.
"""
from __future__ import annotations

from hierarchos.errors import UserError
from pipelines.config.device import DeviceConfig
from pipelines.devices import find_device, open_selected
from pipelines.exits import DONE, FAILED
from pipelines.progress import Progress
from pipelines.selftest import TOLERANCE, selftest


def run(words: list[str]) -> int:
    """Prints facts and verdict; status 3 when a test fails."""
    config = DeviceConfig(select=selected(words))
    info = find_device(config)
    from hierarchos.vulkan.describe import device_facts

    Progress().table("", ["device", str(info.index)], [list(row) for row in device_facts(info)])
    device = open_selected(config)
    try:
        failed = [outcome.name for outcome in numeric_test(device) if not outcome.passed]
    finally:
        device.close()
    print("\nverdict: " + verdict(info, failed))
    return FAILED if failed else DONE


def numeric_test(device: object) -> list:
    """Tests each kind of kernel and prints its error."""
    print(f"\narithmetic against NumPy in double precision (allowed: {TOLERANCE:g} of the largest value)")
    outcomes = []
    for outcome in selftest(device):
        said = outcome.failure or f"{outcome.error:.1e}"
        print(f"  {outcome.name:<24}{'right' if outcome.passed else 'WRONG'}  {said}", flush=True)
        outcomes.append(outcome)
    return outcomes


def verdict(info: object, failed: list[str]) -> str:
    """One sentence: usable or not, and what to do."""
    if failed:
        return f"{info.name} must not be used: {', '.join(failed)} wrong; update its driver, or choose another device"
    return f"{info.name} can be used" + (" (software: slow, for tests)" if info.software else "")


def selected(words: list[str]) -> str:
    """The value of device=SELECT; auto without it."""
    for word in words:
        if not word.startswith(("device=", "device.select=")):
            raise UserError(f"{word} is not understood", where="command line", hint="it takes device=SELECT")
    return words[-1].partition("=")[2] if words else "auto"
