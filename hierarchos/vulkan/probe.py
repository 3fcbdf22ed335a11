"""Reads the facts of a physical device into a DeviceInfo."""
from __future__ import annotations

import os

from hierarchos.vulkan import features, matrices
from hierarchos.vulkan.info import REQUIRED, DeviceInfo
from hierarchos.vulkan.loader import api, enumerate_structs, struct, text

KINDS = {1: "integrated", 2: "discrete", 3: "virtual", 4: "software"}
VENDORS = {0x1002: "AMD", 0x1010: "Imagination", 0x106B: "Apple", 0x10DE: "NVIDIA", 0x13B5: "ARM", 0x5143: "Qualcomm", 0x8086: "Intel",
           0x10005: "Mesa"}
SUBGROUP_OPERATIONS = {"subgroup_arithmetic": 0x4, "subgroup_ballot": 0x8, "subgroup_shuffle": 0x10, "subgroup_clustered": 0x40}
COMPUTE, GRAPHICS = 0x2, 0x1


def probe(physical, index: int, instance) -> DeviceInfo:
    """Everything that choosing, planning and reporting need to know."""
    extensions = device_extensions(physical)
    properties, vulkan11, driver = read_properties(physical)
    limits, version = properties.limits, version_of(properties.apiVersion)
    groups = features.available_groups(version[:2], extensions) if version >= (1, 2, 0) else []
    family = queue_family(physical)
    found = set(features.query(physical, groups)) if groups else set()
    found |= {name for name, bit in SUBGROUP_OPERATIONS.items() if vulkan11.subgroupSupportedOperations & bit}
    timestamps = family is not None and family[1] > 0
    found |= {"timestamps"} if timestamps else set()
    present = found | ({"vulkan 1.2"} if version >= (1, 2, 0) else set()) | ({"compute queue"} if family else set())
    heap = largest_heap(physical)
    return DeviceInfo(
        index=index, name=text(properties.deviceName), kind=KINDS.get(properties.deviceType, "virtual"),
        vendor=VENDORS.get(properties.vendorID, f"vendor 0x{properties.vendorID:x}"),
        driver=f"{text(driver.driverName)} {text(driver.driverInfo)}".strip(), api_version=".".join(map(str, version)),
        heap_bytes=heap, max_allocation=min(heap, int(vulkan11.maxMemoryAllocationSize) or heap),
        max_buffer=min(heap, max_buffer(physical, version) or heap),
        max_push_constants=limits.maxPushConstantsSize, max_groups=tuple(limits.maxComputeWorkGroupCount),
        max_group_size=tuple(limits.maxComputeWorkGroupSize), max_invocations=limits.maxComputeWorkGroupInvocations,
        shared_bytes=limits.maxComputeSharedMemorySize, subgroup=vulkan11.subgroupSize,
        compute_units=compute_units(physical, extensions, properties.deviceType),
        timestamp_period=limits.timestampPeriod if timestamps else 0.0, features=frozenset(found),
        matrices=matrices.shapes(instance, physical, found) if fixed_subgroup(physical, version) else (),
        missing=tuple(name for name in REQUIRED if name not in present),
        uuid=bytes(properties.pipelineCacheUUID).hex(), driver_version=properties.driverVersion)


def read_properties(physical):
    """VkPhysicalDeviceProperties, Vulkan11Properties and DriverProperties of the device."""
    vk = api()
    driver = struct("VkPhysicalDeviceDriverProperties", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES)
    vulkan11 = struct("VkPhysicalDeviceVulkan11Properties", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, pNext=driver)
    root = struct("VkPhysicalDeviceProperties2", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2)
    vk.lib.vkGetPhysicalDeviceProperties2(physical, root)
    if version_of(root.properties.apiVersion) >= (1, 2, 0):      # an older device does not know the chained structs
        root.pNext = vulkan11
        vk.lib.vkGetPhysicalDeviceProperties2(physical, root)
    return vk.ffi.new("VkPhysicalDeviceProperties *", root.properties), vulkan11, driver


def version_of(packed: int) -> tuple[int, int, int]:
    return (packed >> 22) & 0x7F, (packed >> 12) & 0x3FF, packed & 0xFFF


def device_extensions(physical) -> frozenset[str]:
    found = enumerate_structs("vkEnumerateDeviceExtensionProperties", "VkExtensionProperties", physical, api().ffi.NULL)
    return frozenset(text(extension.extensionName) for extension in found)


def queue_family(physical) -> tuple[int, int] | None:
    """Index and timestamp bits of the queue family to use: compute without graphics (so that a desktop keeps its own
    queue) where it has timestamps, else the first with compute; None when there is none."""
    families = enumerate_structs("vkGetPhysicalDeviceQueueFamilyProperties", "VkQueueFamilyProperties", physical)
    able = [(i, f.timestampValidBits, f.queueFlags) for i, f in enumerate(families) if f.queueFlags & COMPUTE]
    apart = [entry for entry in able if not entry[2] & GRAPHICS and entry[1]]
    return (apart or able)[0][:2] if able else None


def largest_heap(physical) -> int:
    """Bytes of the largest device-local heap."""
    memory = api().ffi.new("VkPhysicalDeviceMemoryProperties *")
    api().lib.vkGetPhysicalDeviceMemoryProperties(physical, memory)
    heaps = [memory.memoryHeaps[i] for i in range(memory.memoryHeapCount)]
    return max((int(heap.size) for heap in heaps if heap.flags & 1), default=0)


def max_buffer(physical, version: tuple[int, int, int]) -> int:
    """Bytes that one buffer may have, or 0 when the device does not say (before Vulkan 1.3)."""
    return int(extended(physical, "VkPhysicalDeviceMaintenance4Properties", 1000413001).maxBufferSize) if version >= (1, 3, 0) else 0


def compute_units(physical, extensions: frozenset[str], device_type: int) -> int:
    """Multiprocessors (NVIDIA), compute units (AMD), CPU cores (software), or 0 when nothing tells."""
    if KINDS.get(device_type) == "software":
        return os.cpu_count() or 1
    if "VK_NV_shader_sm_builtins" in extensions:
        return extended(physical, "VkPhysicalDeviceShaderSMBuiltinsPropertiesNV", 1000154001).shaderSMCount
    if "VK_AMD_shader_core_properties2" in extensions:
        return extended(physical, "VkPhysicalDeviceShaderCoreProperties2AMD", 1000227000).activeComputeUnitCount
    if "VK_AMD_shader_core_properties" in extensions:
        core = extended(physical, "VkPhysicalDeviceShaderCorePropertiesAMD", 1000185000)
        return core.shaderEngineCount * core.shaderArraysPerEngineCount * core.computeUnitsPerShaderArray
    return 0


def fixed_subgroup(physical, version: tuple[int, int, int]) -> bool:
    """Whether all subgroups have one size. Kernels on matrix units count on it; where a driver may choose, they are not used."""
    if version < (1, 3, 0):
        return False
    sizes = extended(physical, "VkPhysicalDeviceSubgroupSizeControlProperties", 1000225000)
    return sizes.minSubgroupSize == sizes.maxSubgroupSize


def extended(physical, kind: str, stype: int):
    """One property struct of an extension."""
    vk = api()
    block = struct(kind, stype)
    root = struct("VkPhysicalDeviceProperties2", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, pNext=block)
    vk.lib.vkGetPhysicalDeviceProperties2(physical, root)
    return block
