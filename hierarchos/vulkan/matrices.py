"""Which matrices a device's matrix units multiply (VK_KHR_cooperative_matrix)."""
from __future__ import annotations

from hierarchos.vulkan.loader import api

FORMATS = {0: "f16", 1000141000: "bf16"}            # VkComponentTypeKHR of the operands
FLOAT32, SUBGROUP_SCOPE = 1, 3
NEEDED = {"f16": {"cooperative_matrix", "float16", "storage16", "memory_model"},
          "bf16": {"cooperative_matrix", "bfloat16", "bfloat16_cooperative_matrix", "storage16", "memory_model"}}


def shapes(instance, physical, features: set[str]) -> tuple[tuple[str, int, int, int], ...]:
    """(format, m, n, k) of every kind whose subgroups multiply halves and sum in fp32."""
    if "cooperative_matrix" not in features:
        return ()
    vk = api()
    name = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
    address = vk.lib.vkGetInstanceProcAddr(instance, vk.ffi.new("char[]", name.encode()))
    if address == vk.ffi.NULL:
        return ()
    function, count = vk.ffi.cast(f"PFN_{name}", address), vk.ffi.new("uint32_t *")
    function(physical, count, vk.ffi.NULL)
    items = vk.ffi.new("VkCooperativeMatrixPropertiesKHR[]", count[0])
    for item in items:
        item.sType = vk.VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
    function(physical, count, items)
    found = [(FORMATS[int(item.AType)], item.MSize, item.NSize, item.KSize) for item in items if usable(item)]
    return tuple(entry for entry in dict.fromkeys(found) if NEEDED[entry[0]] <= features)


def usable(item) -> bool:
    alike = int(item.AType) == int(item.BType) and int(item.AType) in FORMATS
    return alike and int(item.CType) == int(item.ResultType) == FLOAT32 and int(item.scope) == SUBGROUP_SCOPE
