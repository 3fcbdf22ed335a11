"""Device memory: allocations that are known by their address."""
from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hierarchos.vulkan.errors import CallFailed, OutOfMemory
from hierarchos.vulkan.faults import FailAllocation
from hierarchos.vulkan.huge_pages import ask_for_huge_pages
from hierarchos.vulkan.loader import api, check, create, struct

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.vulkan.device import Device

DEVICE_LOCAL, HOST_VISIBLE, HOST_COHERENT, HOST_CACHED = 1, 2, 4, 8
USAGE = 0x20 | 0x1 | 0x2 | 0x20000                  # storage, transfer source, transfer target, shader device address
OUT_OF_MEMORY = ("VK_ERROR_OUT_OF_DEVICE_MEMORY", "VK_ERROR_OUT_OF_HOST_MEMORY")


@dataclass(eq=False)
class Allocation:
    """`nbytes` of zeroed memory at device address `address`.

    view: the same bytes as a NumPy uint8 array when the memory is mapped, else None. It must not be used after
    `free()`, which returns the memory to the driver."""

    owner: Memory
    label: str
    nbytes: int
    address: int
    buffer: object = field(repr=False)
    handle: object = field(repr=False)
    view: np.ndarray | None = field(default=None, repr=False)

    def free(self) -> None:
        """Gives the memory back once the device is idle; may be called twice."""
        self.owner.free(self)

    @property
    def mapped(self) -> bool:
        return self.view is not None


class Memory:
    """All allocations of a device, sorted by address."""

    def __init__(self, device: Device):
        self.device = device
        self.addresses: list[int] = []
        self.allocations: list[Allocation] = []
        self.peak = 0                               # the most bytes that were in use at once
        self.types = memory_types(device.physical)
        self.map_everything = device.info.kind in ("software", "integrated")        # the host shares the device's memory

    @property
    def used(self) -> int:
        return sum(allocation.nbytes for allocation in self.allocations)

    def allocate(self, nbytes: int, label: str, host_visible: bool) -> Allocation:
        """A new buffer with its own memory; raises OutOfMemory. Not zeroed yet when it is not mapped."""
        info = self.device.info
        nbytes = max(4, (nbytes + 3) // 4 * 4)
        if self.device.faults.due(FailAllocation) or nbytes > info.max_buffer:
            raise self.out_of_memory(label, nbytes)
        mapped = host_visible or self.map_everything
        buffer = self._create_buffer(nbytes)
        try:
            handle = self._allocate(buffer, mapped, host_visible)
        except CallFailed as error:
            api().lib.vkDestroyBuffer(self.device.handle, buffer, api().ffi.NULL)
            raise (self.out_of_memory(label, nbytes) if error.result in OUT_OF_MEMORY else error) from None
        allocation = Allocation(self, label, nbytes, self._address(buffer), buffer, handle, self._map(handle, nbytes) if mapped else None)
        self._insert(allocation)
        return allocation

    def _create_buffer(self, nbytes: int):
        vk = api()
        info = struct("VkBufferCreateInfo", vk.VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, size=nbytes, usage=USAGE)
        return create("vkCreateBuffer", "VkBuffer", self.device.handle, info)

    def _allocate(self, buffer, mapped: bool, host_visible: bool):
        """Memory for the buffer, bound to it."""
        vk = api()
        needs = vk.ffi.new("VkMemoryRequirements *")
        vk.lib.vkGetBufferMemoryRequirements(self.device.handle, buffer, needs)
        flags = struct("VkMemoryAllocateFlagsInfo", vk.VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, flags=2)    # device address
        info = struct("VkMemoryAllocateInfo", vk.VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, pNext=flags, allocationSize=needs.size,
                      memoryTypeIndex=pick_type(self.types, needs.memoryTypeBits, mapped, host_visible))
        handle = create("vkAllocateMemory", "VkDeviceMemory", self.device.handle, info)
        check(vk.lib.vkBindBufferMemory(self.device.handle, buffer, handle, 0), "vkBindBufferMemory")
        return handle

    def _address(self, buffer) -> int:
        vk = api()
        info = struct("VkBufferDeviceAddressInfo", vk.VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, buffer=buffer)
        return int(vk.lib.vkGetBufferDeviceAddress(self.device.handle, info))

    def _map(self, handle, nbytes: int) -> np.ndarray:
        """Maps the memory for its life and zeroes it."""
        import numpy as np
        vk = api()
        pointer = vk.ffi.new("void **")
        check(vk.lib.vkMapMemory(self.device.handle, handle, 0, nbytes, 0, pointer), "vkMapMemory")
        if self.device.info.software:
            ask_for_huge_pages(int(vk.ffi.cast("uintptr_t", pointer[0])), nbytes)
        view = np.frombuffer(vk.ffi.buffer(pointer[0], nbytes), np.uint8)
        view[:] = 0
        return view

    def _insert(self, allocation: Allocation) -> None:
        at = bisect_right(self.addresses, allocation.address)
        self.addresses.insert(at, allocation.address)
        self.allocations.insert(at, allocation)
        self.peak = max(self.peak, self.used)

    def find(self, address: int, nbytes: int) -> tuple[Allocation, int]:
        """The allocation that holds [address, address + nbytes) and the offset into it."""
        at = bisect_right(self.addresses, address) - 1
        assert at >= 0, f"address 0x{address:x} is in no allocation"
        allocation = self.allocations[at]
        offset = address - allocation.address
        assert offset + nbytes <= allocation.nbytes, f"{nbytes} bytes at 0x{address:x} reach past {allocation.label}"
        return allocation, offset

    def free(self, allocation: Allocation) -> None:
        if allocation not in self.allocations:
            return
        if not self.device.timeline.lost:
            self.device.wait_idle()
        at = self.allocations.index(allocation)
        del self.allocations[at], self.addresses[at]
        vk = api()
        vk.lib.vkDestroyBuffer(self.device.handle, allocation.buffer, vk.ffi.NULL)
        vk.lib.vkFreeMemory(self.device.handle, allocation.handle, vk.ffi.NULL)    # unmaps as well
        allocation.view = None

    def out_of_memory(self, label: str, nbytes: int) -> OutOfMemory:
        largest = sorted(((a.label, a.nbytes) for a in self.allocations), key=lambda entry: (-entry[1], entry[0]))[:4]
        return OutOfMemory(label, nbytes, self.used, self.device.info.heap_bytes, self.device.info.max_buffer, largest)

    def close(self) -> None:
        for allocation in list(self.allocations):
            self.free(allocation)


def memory_types(physical) -> list[int]:
    """The property flags of each memory type."""
    memory = api().ffi.new("VkPhysicalDeviceMemoryProperties *")
    api().lib.vkGetPhysicalDeviceMemoryProperties(physical, memory)
    return [memory.memoryTypes[i].propertyFlags for i in range(memory.memoryTypeCount)]


def pick_type(types: list[int], allowed: int, mapped: bool, host_visible: bool) -> int:
    """Index of the best memory type among the bits of `allowed`.

    Mapped memory must be visible and coherent; for data that the device works on device-local comes first, for
    staging (`host_visible`) host-cached does: reads of uncached memory are some 50 times slower."""
    required = HOST_VISIBLE | HOST_COHERENT if mapped else DEVICE_LOCAL               # Vulkan promises one of each kind
    able = [i for i, flags in enumerate(types) if allowed >> i & 1 and flags & required == required]

    def worth(i: int) -> tuple[bool, bool, bool]:
        local, cached, visible = bool(types[i] & DEVICE_LOCAL), bool(types[i] & HOST_CACHED), bool(types[i] & HOST_VISIBLE)
        if not mapped:
            return local, not visible, not cached
        return (cached, not local, visible) if host_visible else (local, cached, visible)
    return max(able, key=lambda i: (*worth(i), -i))
