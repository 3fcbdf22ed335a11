"""Optional abilities of a device: which Vulkan flag stands for each of our names, asked and enabled through one table."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.vulkan.loader import _alive, api, struct


@dataclass(frozen=True)
class Group:
    """One feature struct: its C name (or "" when the binding lacks it), sType, the extension it needs, and our name of each flag.

    A flag is a field name, or its position in a struct that the binding lacks. `core`: the (major, minor) that made it core."""

    kind: str
    stype: int
    flags: dict[str, str | int]
    extension: str = ""
    core: tuple[int, int] = (99, 0)


BASE = {"int64": "shaderInt64", "float64": "shaderFloat64", "int16": "shaderInt16"}
GROUPS = (
    Group("VkPhysicalDeviceVulkan11Features", 49, {"storage16": "storageBuffer16BitAccess"}, core=(1, 2)),
    Group("VkPhysicalDeviceVulkan12Features", 51, {
        "buffer_device_address": "bufferDeviceAddress", "scalar_block_layout": "scalarBlockLayout",
        "timeline_semaphore": "timelineSemaphore", "float16": "shaderFloat16", "int8": "shaderInt8",
        "int8_storage": "storageBuffer8BitAccess", "int64_atomics": "shaderBufferInt64Atomics",
        "memory_model": "vulkanMemoryModel", "memory_model_device_scope": "vulkanMemoryModelDeviceScope"}, core=(1, 2)),
    Group("VkPhysicalDeviceSubgroupSizeControlFeatures", 1000225002, {
        "subgroup_size_control": "subgroupSizeControl", "full_subgroups": "computeFullSubgroups"},
        "VK_EXT_subgroup_size_control", core=(1, 3)),
    Group("VkPhysicalDeviceShaderIntegerDotProductFeatures", 1000280000, {"integer_dot_product": "shaderIntegerDotProduct"},
          "VK_KHR_shader_integer_dot_product", core=(1, 3)),
    Group("VkPhysicalDeviceShaderAtomicFloatFeaturesEXT", 1000260000, {"shader_float_atomics": "shaderBufferFloat32AtomicAdd"},
          "VK_EXT_shader_atomic_float"),
    Group("VkPhysicalDeviceCooperativeMatrixFeaturesKHR", 1000506000, {"cooperative_matrix": "cooperativeMatrix"},
          "VK_KHR_cooperative_matrix"),
    Group("", 1000593000, {
        "cooperative_matrix2_workgroup_scope": 0, "cooperative_matrix2_flexible": 1, "cooperative_matrix2_reductions": 2,
        "cooperative_matrix2_conversions": 3, "cooperative_matrix2_per_element": 4, "cooperative_matrix2_tensor": 5,
        "cooperative_matrix2_block_loads": 6}, "VK_NV_cooperative_matrix2"),
    Group("", 1000141000, {"bfloat16": 0, "bfloat16_dot_product": 1, "bfloat16_cooperative_matrix": 2}, "VK_KHR_shader_bfloat16"),
)


def available_groups(version: tuple[int, int], extensions: frozenset[str]) -> list[Group]:
    """The groups that this device may be asked about."""
    return [group for group in GROUPS if version >= group.core or group.extension in extensions]


def needed_extensions(groups: list[Group], extensions: frozenset[str]) -> list[str]:
    return [group.extension for group in groups if group.extension in extensions]


def query(physical, groups: list[Group]) -> frozenset[str]:
    """Our names of the features that the physical device has."""
    root, blocks = chain(groups)
    api().lib.vkGetPhysicalDeviceFeatures2(physical, root)
    found = {name for name, flag in BASE.items() if getattr(root.features, flag)}
    for group, block in zip(groups, blocks, strict=True):
        found |= {name for name, flag in group.flags.items() if get_flag(block, flag)}
    return frozenset(found)


def enable(groups: list[Group], wanted: frozenset[str]):
    """A `VkPhysicalDeviceFeatures2 *` chain that switches on exactly `wanted`."""
    root, blocks = chain(groups)
    for name, flag in BASE.items():
        setattr(root.features, flag, name in wanted)
    for group, block in zip(groups, blocks, strict=True):
        for name, flag in group.flags.items():
            set_flag(block, flag, name in wanted)
    return root


def chain(groups: list[Group]):
    """An all-zero chain: the root struct (which keeps the rest alive) and the block of each group."""
    ffi = api().ffi
    blocks, following = [], ffi.NULL
    for group in reversed(groups):
        following = new_block(group, following)
        blocks.insert(0, following)
    return struct("VkPhysicalDeviceFeatures2", api().VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, pNext=following), blocks


def new_block(group: Group, following):
    """The group's struct. One that the binding lacks is raw memory: sType, padding, pNext (two words), then its flags."""
    if group.kind:
        return struct(group.kind, group.stype, pNext=following)
    ffi = api().ffi
    words = ffi.new("uint32_t[]", 4 + len(group.flags))
    words[0] = group.stype
    ffi.memmove(ffi.addressof(words, 2), ffi.new("uint64_t *", int(ffi.cast("uintptr_t", following))), 8)
    _alive[words] = (following,)                    # a raw block holds only the number of the next one
    return words


def get_flag(block, flag: str | int) -> bool:
    return bool(block[4 + flag] if isinstance(flag, int) else getattr(block, flag))


def set_flag(block, flag: str | int, value: bool) -> None:
    if isinstance(flag, int):
        block[4 + flag] = value
    else:
        setattr(block, flag, value)
