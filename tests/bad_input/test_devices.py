"""Devices that are not there, are ambiguous or lack something. The list of devices is made up: a laptop with two GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from hierarchos.vulkan import DeviceInfo, NoVulkan
from tests.bad_input.table import Wrong, by_name

LAPTOP = [
    DeviceInfo(0, "llvmpipe (LLVM 15.0.6, 256 bits)", "software", driver="Mesa 25.0.7"),
    DeviceInfo(1, "Intel(R) UHD Graphics 630", "integrated", driver="Mesa 25.0.7"),
    DeviceInfo(2, "Intel(R) Arc(tm) A770", "discrete", driver="Mesa 25.0.7"),
    DeviceInfo(3, "GeForce GT 710", "discrete", driver="NVIDIA 470.256", missing=("scalarBlockLayout", "timelineSemaphore")),
]
NONE_THERE: list[DeviceInfo] = []


def choosing(what: str, words: list[str], message: str) -> Wrong:
    return Wrong(what, tuple(words), message)


@contextmanager
def prepare_process(row: Wrong) -> Iterator[None]:
    """The devices that a row has: those of the laptop, none, or no Vulkan at all."""
    def devices() -> list[DeviceInfo]:
        if "no loader" in row.what:
            raise NoVulkan
        if "no device" in row.what:
            return NONE_THERE
        return LAPTOP[3:] if "only" in row.what else LAPTOP

    with mock.patch("hierarchos.vulkan.list_devices", devices):
        yield


ROWS = [
    choosing("index that is not there", ["train", "device=9"], """\
no device matches device=9; there is:      device.select
  0  llvmpipe (LLVM 15.0.6, 256 bits)  (software, Mesa 25.0.7)
  1  Intel(R) UHD Graphics 630  (integrated, Mesa 25.0.7)
  2  Intel(R) Arc(tm) A770  (discrete, Mesa 25.0.7)
  3  GeForce GT 710  (discrete, NVIDIA 470.256)  lacks scalarBlockLayout, timelineSemaphore
  type device=auto, an index (device=2) or a part of one name
  nothing was started"""),
    choosing("index that is not there, long form", ["train", "device=vulkan:9"], """\
no device matches device=9; there is:      device.select
  0  llvmpipe (LLVM 15.0.6, 256 bits)  (software, Mesa 25.0.7)
  1  Intel(R) UHD Graphics 630  (integrated, Mesa 25.0.7)
  2  Intel(R) Arc(tm) A770  (discrete, Mesa 25.0.7)
  3  GeForce GT 710  (discrete, NVIDIA 470.256)  lacks scalarBlockLayout, timelineSemaphore
  type device=auto, an index (device=2) or a part of one name
  nothing was started"""),
    choosing("index below zero", ["train", "device=-1"], """\
no device matches device=-1; there is:     device.select
  0  llvmpipe (LLVM 15.0.6, 256 bits)  (software, Mesa 25.0.7)
  1  Intel(R) UHD Graphics 630  (integrated, Mesa 25.0.7)
  2  Intel(R) Arc(tm) A770  (discrete, Mesa 25.0.7)
  3  GeForce GT 710  (discrete, NVIDIA 470.256)  lacks scalarBlockLayout, timelineSemaphore
  type device=auto, an index (device=2) or a part of one name
  nothing was started"""),
    choosing("name that is not there", ["train", "device=geforce 9999"], """\
no device matches device=geforce 9999; there is:
  device.select
  0  llvmpipe (LLVM 15.0.6, 256 bits)  (software, Mesa 25.0.7)
  1  Intel(R) UHD Graphics 630  (integrated, Mesa 25.0.7)
  2  Intel(R) Arc(tm) A770  (discrete, Mesa 25.0.7)
  3  GeForce GT 710  (discrete, NVIDIA 470.256)  lacks scalarBlockLayout, timelineSemaphore
  type device=auto, an index (device=2) or a part of one name
  nothing was started"""),
    choosing("name of two devices", ["train", "device=intel"], """\
2 devices match device=intel; there is:    device.select
  0  llvmpipe (LLVM 15.0.6, 256 bits)  (software, Mesa 25.0.7)
  1  Intel(R) UHD Graphics 630  (integrated, Mesa 25.0.7)
  2  Intel(R) Arc(tm) A770  (discrete, Mesa 25.0.7)
  3  GeForce GT 710  (discrete, NVIDIA 470.256)  lacks scalarBlockLayout, timelineSemaphore
  type device=auto, an index (device=2) or a part of one name
  nothing was started"""),
    choosing("device that lacks features", ["train", "device=gt 710"], """\
device=gt 710 is GeForce GT 710, which lacks scalarBlockLayout, timelineSemaphore; there is:
  device.select
  0  llvmpipe (LLVM 15.0.6, 256 bits)  (software, Mesa 25.0.7)
  1  Intel(R) UHD Graphics 630  (integrated, Mesa 25.0.7)
  2  Intel(R) Arc(tm) A770  (discrete, Mesa 25.0.7)
  3  GeForce GT 710  (discrete, NVIDIA 470.256)  lacks scalarBlockLayout, timelineSemaphore
  type device=auto, an index (device=2) or a part of one name
  nothing was started"""),
    choosing("word of another world: cpu", ["train", "device=cpu"], """\
no device matches device=cpu; there is:    device.select
  0  llvmpipe (LLVM 15.0.6, 256 bits)  (software, Mesa 25.0.7)
  1  Intel(R) UHD Graphics 630  (integrated, Mesa 25.0.7)
  2  Intel(R) Arc(tm) A770  (discrete, Mesa 25.0.7)
  3  GeForce GT 710  (discrete, NVIDIA 470.256)  lacks scalarBlockLayout, timelineSemaphore
  type device=auto, an index (device=2) or a part of one name
  everything is computed through Vulkan, and devices have the names above; a software device uses the processor
  nothing was started"""),
    choosing("word of another world: cuda", ["train", "device=cuda"], """\
no device matches device=cuda; there is:   device.select
  0  llvmpipe (LLVM 15.0.6, 256 bits)  (software, Mesa 25.0.7)
  1  Intel(R) UHD Graphics 630  (integrated, Mesa 25.0.7)
  2  Intel(R) Arc(tm) A770  (discrete, Mesa 25.0.7)
  3  GeForce GT 710  (discrete, NVIDIA 470.256)  lacks scalarBlockLayout, timelineSemaphore
  type device=auto, an index (device=2) or a part of one name
  everything is computed through Vulkan, and devices have the names above; a software device uses the processor
  nothing was started"""),
    choosing("empty name", ["train", "device="], """\
device.select is empty                     command line
  auto (discrete, integrated, virtual, then software), an index, "vulkan:1", or part of a name such as "uhd 630".
  try  device.select=auto
  nothing was started"""),
    choosing("number that is no text in max_submit_ms", ["train", "device.max_submit_ms=0"], """\
device.max_submit_ms must be above 0, not 0
  command line
  Longest stretch of GPU time handed over at once, in milliseconds, so that a desktop keeps running; null: by kind of device.
  nothing was started"""),
    choosing("precision that is not there yet", ["train", "precision=int8"], """\
precision=int8 is not there                command line
  there is: bf16, fp16, fp32               nothing was started"""),
    choosing("format that the device lacks", ["train", "device=1", "precision=bf16"], """\
Intel(R) UHD Graphics 630 cannot compute in bf16: it has no 16-bit storage
  precision.compute
  it has fp32
  try  precision=fp32
  nothing was started"""),
    choosing("only a device that lacks features", ["train"], """\
no usable Vulkan device; found:            device.select
  3  GeForce GT 710  (discrete, NVIDIA 470.256)  lacks scalarBlockLayout, timelineSemaphore
  install a driver (Debian, Ubuntu: apt install mesa-vulkan-drivers, which also brings a software device)
  then look again with: hierarchos devices
  nothing was started"""),
    choosing("no device at all", ["train"], """\
no usable Vulkan device; found:            device.select
  (none)
  install a driver (Debian, Ubuntu: apt install mesa-vulkan-drivers, which also brings a software device)
  then look again with: hierarchos devices
  nothing was started"""),
    choosing("no loader", ["train"], """\
no Vulkan loader is installed (libvulkan.so.1 / vulkan-1.dll / libvulkan.dylib)
  device.select
  Debian, Ubuntu:  apt install libvulkan1 mesa-vulkan-drivers
  Windows: the graphics driver brings it;  macOS: install the Vulkan SDK or MoltenVK
  nothing was started"""),
    choosing("no loader, asked for a list", ["devices"], """\
no Vulkan loader is installed (libvulkan.so.1 / vulkan-1.dll / libvulkan.dylib)
  Debian, Ubuntu:  apt install libvulkan1 mesa-vulkan-drivers
  Windows: the graphics driver brings it;  macOS: install the Vulkan SDK or MoltenVK"""),
    choosing("doctor for a device that is not there", ["doctor", "device=radeon"], """\
no device matches device=radeon; there is:
  device.select
  0  llvmpipe (LLVM 15.0.6, 256 bits)  (software, Mesa 25.0.7)
  1  Intel(R) UHD Graphics 630  (integrated, Mesa 25.0.7)
  2  Intel(R) Arc(tm) A770  (discrete, Mesa 25.0.7)
  3  GeForce GT 710  (discrete, NVIDIA 470.256)  lacks scalarBlockLayout, timelineSemaphore
  type device=auto, an index (device=2) or a part of one name
  nothing was started"""),
    choosing("doctor with an unknown word", ["doctor", "radeon"], """\
radeon is not understood                   command line
  it takes device=SELECT                   nothing was started"""),
]


@pytest.mark.parametrize(**by_name(ROWS))
def test_devices_that_cannot_be_used(check, row):
    with prepare_process(row):
        check(row)
