"""Device time of each command: timestamp queries around it."""
from __future__ import annotations

from typing import TYPE_CHECKING

from hierarchos.vulkan.loader import api, check, create, struct

if TYPE_CHECKING:
    from hierarchos.vulkan.device import Device

POOL_QUERIES = 4096
BOTTOM_OF_PIPE = 0x2000
WAIT_64 = 0x1 | 0x2


class Timestamps:
    """`count` timestamps in as many query pools as they need."""

    def __init__(self, device: Device, count: int):
        vk = api()
        self.device, self.count = device, count
        self.pools = [create("vkCreateQueryPool", "VkQueryPool", device.handle, struct(
            "VkQueryPoolCreateInfo", vk.VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, queryType=vk.VK_QUERY_TYPE_TIMESTAMP,
            queryCount=min(POOL_QUERIES, count - start))) for start in range(0, count, POOL_QUERIES)]

    def reset(self, command_buffer) -> None:
        """Records that all queries start anew."""
        for i, pool in enumerate(self.pools):
            api().lib.vkCmdResetQueryPool(command_buffer, pool, 0, min(POOL_QUERIES, self.count - i * POOL_QUERIES))

    def write(self, command_buffer, index: int) -> None:
        """Records the time at which everything before this point has finished."""
        api().lib.vkCmdWriteTimestamp(command_buffer, BOTTOM_OF_PIPE, self.pools[index // POOL_QUERIES], index % POOL_QUERIES)

    def seconds(self) -> list[float]:
        """Times of all queries in seconds, from an arbitrary start. The recording must have finished."""
        ffi = api().ffi
        ticks = ffi.new("uint64_t[]", self.count)
        for i, pool in enumerate(self.pools):
            first, n = i * POOL_QUERIES, min(POOL_QUERIES, self.count - i * POOL_QUERIES)
            check(api().lib.vkGetQueryPoolResults(self.device.handle, pool, 0, n, 8 * n, ticks + first, 8, WAIT_64),
                  "vkGetQueryPoolResults")
        valid = (1 << self.device.timestamp_bits) - 1
        return [(tick - ticks[0] & valid) * self.device.info.timestamp_period * 1e-9 for tick in ticks]

    def close(self) -> None:
        for pool in self.pools:
            api().lib.vkDestroyQueryPool(self.device.handle, pool, api().ffi.NULL)
        self.pools = []
