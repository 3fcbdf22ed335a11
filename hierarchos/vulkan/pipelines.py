"""Compute pipelines: one for each shader and set of specialization constants, made once."""
from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from hierarchos.vulkan.commands import Shader
from hierarchos.vulkan.loader import api, create, struct
from hierarchos.vulkan.pipeline_cache import PipelineCache

if TYPE_CHECKING:
    from hierarchos.vulkan.device import Device

PUSH_BYTES = 128                                    # what every Vulkan device guarantees
COMPUTE_STAGE = 0x20
Key = tuple[str, tuple[int, ...]]


class Pipelines:
    """Pipelines by (shader digest, constants), their common layout, and the cache file behind them."""

    def __init__(self, device: Device):
        vk = api()
        self.device = device
        self.cache = PipelineCache(device)
        self._made: dict[Key, object] = {}
        pushes = struct("VkPushConstantRange", stageFlags=COMPUTE_STAGE, offset=0, size=PUSH_BYTES)
        info = struct("VkPipelineLayoutCreateInfo", vk.VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, pushConstantRangeCount=1,
                      pPushConstantRanges=pushes)
        self.layout = create("vkCreatePipelineLayout", "VkPipelineLayout", device.handle, info)

    def __len__(self) -> int:
        return len(self._made)

    def get(self, shader: Shader, constants: tuple[int, ...]):
        """The pipeline of a shader with its constants, made now if it is new."""
        key = (shader.digest, constants)
        if key not in self._made:
            self._made[key] = self._make(shader, constants)
        return self._made[key]

    def prepare(self, wanted: Iterable[tuple[Shader, tuple[int, ...]]]) -> int:
        """Makes those that are new, side by side on all cores. Returns how many were new."""
        new = {(shader.digest, constants): shader for shader, constants in wanted if (shader.digest, constants) not in self._made}
        if not new:
            return 0
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = pool.map(lambda item: self._make(item[1], item[0][1]), new.items())
            for key, pipeline in zip(new, made, strict=True):
                self._made[key] = pipeline
        self.cache.changed = True
        return len(new)

    def _make(self, shader: Shader, constants: tuple[int, ...]):
        vk = api()
        code = vk.ffi.new("char[]", shader.code)
        module_info = struct("VkShaderModuleCreateInfo", vk.VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, codeSize=len(shader.code),
                             pCode=vk.ffi.cast("uint32_t *", code))
        module = create("vkCreateShaderModule", "VkShaderModule", self.device.handle, module_info)
        try:
            stage = struct("VkPipelineShaderStageCreateInfo", vk.VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                           stage=COMPUTE_STAGE, module=module, pName=vk.ffi.new("char[]", b"main"),
                           pSpecializationInfo=specialization(constants))
            info = struct("VkComputePipelineCreateInfo", vk.VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, stage=stage[0],
                          layout=self.layout)
            return create("vkCreateComputePipelines", "VkPipeline", self.device.handle, self.cache.handle, 1, info)
        finally:
            vk.lib.vkDestroyShaderModule(self.device.handle, module, vk.ffi.NULL)

    def close(self) -> None:
        vk = api()
        self.cache.close()
        for pipeline in self._made.values():
            vk.lib.vkDestroyPipeline(self.device.handle, pipeline, vk.ffi.NULL)
        self._made.clear()
        vk.lib.vkDestroyPipelineLayout(self.device.handle, self.layout, vk.ffi.NULL)


def specialization(constants: tuple[int, ...]):
    """Constants 0, 1, 2 ... as 32-bit patterns; NULL when there are none."""
    vk = api()
    if not constants:
        return vk.ffi.NULL
    entries = vk.ffi.new("VkSpecializationMapEntry[]", len(constants))
    for i, entry in enumerate(entries):
        entry.constantID, entry.offset, entry.size = i, 4 * i, 4
    data = vk.ffi.new("uint32_t[]", [value & 0xFFFFFFFF for value in constants])
    return struct("VkSpecializationInfo", mapEntryCount=len(constants), pMapEntries=entries, dataSize=4 * len(constants), pData=data)
