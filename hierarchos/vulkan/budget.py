"""How much memory a device can give now: what its driver reports, less what other programs use where the driver tells."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.vulkan.errors import OutOfMemory, mebibytes
from hierarchos.vulkan.loader import api, struct
from hierarchos.vulkan.probe import device_extensions

if TYPE_CHECKING:
    from hierarchos.vulkan.device import Device

EXTENSION = "VK_EXT_memory_budget"
DEVICE_LOCAL = 1


@dataclass(frozen=True)
class Budget:
    """Bytes of the largest device-local heap, and how many of them this process can have (fewer where others use some)."""

    heap: int
    free: int

    def text(self) -> str:
        """2048.0 MiB; 1536.0 MiB free of 2048.0 MiB."""
        return mebibytes(self.heap) if self.free >= self.heap else f"{mebibytes(self.free)} free of {mebibytes(self.heap)}"


class DoesNotFit(OutOfMemory):
    """A run would need more memory than the device has; found by planning, before anything was allocated.

    what: "training". items: the need in bytes, in the order in which it is told. advice: lines, shown indented."""

    def __init__(self, what: str, items: dict[str, int], device: str, budget: Budget, advice: list[str]):
        self.items, self.budget = items, budget
        need = sum(items.values())
        super().__init__(what, need, 0, budget.heap, 0, [])
        lines = [f"{what} needs {mebibytes(need)} of device memory; {device} has {budget.text()}",
                 ", ".join(f"{name} {mebibytes(size)}" for name, size in items.items()), *advice]
        self.args = ("\n  ".join(lines),)


def budget_of(device: Device) -> Budget:
    """The memory that an opened device can give to this process."""
    heap = device.info.heap_bytes
    if EXTENSION not in device_extensions(device.physical):
        return Budget(heap, heap)
    return Budget(heap, min(heap, reported_budget(device.physical, heap)))


def reported_budget(physical, heap: int) -> int:
    """Bytes that the driver says this process can have of its largest device-local heap."""
    vk = api()
    budget = struct("VkPhysicalDeviceMemoryBudgetPropertiesEXT", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT)
    root = struct("VkPhysicalDeviceMemoryProperties2", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, pNext=budget)
    vk.lib.vkGetPhysicalDeviceMemoryProperties2(physical, root)
    memory = root.memoryProperties
    largest = max((i for i in range(memory.memoryHeapCount) if memory.memoryHeaps[i].flags & DEVICE_LOCAL),
                  key=lambda i: memory.memoryHeaps[i].size, default=None)
    return heap if largest is None else int(budget.heapBudget[largest]) or heap
