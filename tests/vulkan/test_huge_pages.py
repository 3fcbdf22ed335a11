"""Huge pages are asked for where a software device keeps its memory, and only there."""
import mmap
import sys
from pathlib import Path

import pytest

from hierarchos.vulkan import memory
from hierarchos.vulkan.huge_pages import LEAST, ask_for_huge_pages

SMAPS = Path("/proc/self/smaps")
needs_linux = pytest.mark.skipif(not SMAPS.exists() or not Path("/sys/kernel/mm/transparent_hugepage").exists(),
                                 reason="a Linux kernel with transparent huge pages")


def flags_at(address: int) -> list[str]:
    """The kernel's flags of the mapping that holds this address ("hg": huge pages were asked for)."""
    inside = False
    for line in SMAPS.read_text().splitlines():
        head = line.split()[0]
        if "-" in head:
            first, last = (int(part, 16) for part in head.split("-"))
            inside = first <= address < last
        elif inside and head == "VmFlags:":
            return line.split()[1:]
    raise AssertionError(f"0x{address:x} is not mapped")


@needs_linux
def test_the_kernel_takes_the_request():
    with mmap.mmap(-1, 2 * LEAST) as region:
        import ctypes
        inside = ctypes.c_char.from_buffer(region)
        address = ctypes.addressof(inside)
        assert ask_for_huge_pages(address + 1, 2 * LEAST - 1)
        assert "hg" in flags_at(address + LEAST)
        del inside


def test_small_memory_and_other_systems_are_left_alone(monkeypatch):
    assert not ask_for_huge_pages(0, LEAST - 1)
    monkeypatch.setattr(sys, "platform", "win32")
    assert not ask_for_huge_pages(0, LEAST)


@needs_linux
def test_memory_of_a_software_device_has_them(device):
    if not device.info.software:
        pytest.skip("this device has memory of its own")
    allocation = device.allocate(2 * LEAST, "weights")
    assert "hg" in flags_at(allocation.view.ctypes.data + LEAST)
    assert not allocation.view.any()
    allocation.free()


def test_a_device_with_its_own_memory_does_not_ask(device, monkeypatch):
    asked = []
    monkeypatch.setattr(memory, "ask_for_huge_pages", lambda *where: asked.append(where))
    monkeypatch.setattr(device, "info", type(device.info)(**{**vars(device.info), "kind": "integrated"}))
    device.allocate(2 * LEAST, "weights", host_visible=True).free()
    assert not asked
