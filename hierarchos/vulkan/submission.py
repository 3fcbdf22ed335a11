"""The queue and its timeline: every submission has a number, and the device counts up to it."""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hierarchos.vulkan.errors import DeviceLost, DeviceTimeout
from hierarchos.vulkan.faults import FailSubmit
from hierarchos.vulkan.loader import api, check, create, struct

if TYPE_CHECKING:
    from hierarchos.vulkan.device import Device

SLICE_SECONDS = 0.25                                # a wait returns to Python this often, so that Ctrl-C works
LOST = -4                                           # VK_ERROR_DEVICE_LOST


class Submission:
    """One prepared vkQueueSubmit of one command buffer; `label` and `describe()` explain it when the device is lost."""

    def __init__(self, timeline: Timeline, command_buffer, label: str, describe: Callable[[], list[str]]):
        vk = api()
        self.label, self.describe = label, describe
        self.value = vk.ffi.new("uint64_t *")
        buffers, semaphores = vk.ffi.new("VkCommandBuffer[]", [command_buffer]), vk.ffi.new("VkSemaphore[]", [timeline.semaphore])
        values = struct("VkTimelineSemaphoreSubmitInfo", vk.VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                        signalSemaphoreValueCount=1, pSignalSemaphoreValues=self.value)
        self.info = struct("VkSubmitInfo", vk.VK_STRUCTURE_TYPE_SUBMIT_INFO, pNext=values, commandBufferCount=1,
                           pCommandBuffers=buffers, signalSemaphoreCount=1, pSignalSemaphores=semaphores)


class Timeline:
    """A timeline semaphore with the queue that raises it. `submitted` is the last number given out."""

    def __init__(self, device: Device, queue):
        vk = api()
        self.device, self.queue = device, queue
        self.submitted = 0
        self.lost: DeviceLost | None = None
        self._latest: Submission | None = None
        kind = struct("VkSemaphoreTypeCreateInfo", vk.VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                      semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE)
        info = struct("VkSemaphoreCreateInfo", vk.VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, pNext=kind)
        self.semaphore = create("vkCreateSemaphore", "VkSemaphore", device.handle, info)
        self._reached = vk.ffi.new("uint64_t *")
        self._target = vk.ffi.new("uint64_t *")
        self._wait = struct("VkSemaphoreWaitInfo", vk.VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, semaphoreCount=1,
                            pSemaphores=vk.ffi.new("VkSemaphore[]", [self.semaphore]), pValues=self._target)
        self._submit, self._wait_call, self._null = vk.lib.vkQueueSubmit, vk.lib.vkWaitSemaphores, vk.ffi.NULL

    def submit(self, submission: Submission) -> int:
        """Hands one command buffer to the device; returns the number to wait for."""
        if self.lost:
            raise self.lost
        submission.value[0] = self.submitted + 1
        if self.device.faults.due(FailSubmit):
            result = LOST
        else:
            result = self._submit(self.queue, 1, submission.info, self._null)
        self._latest = submission
        if result < 0:
            self._failed(result, "vkQueueSubmit")
        self.submitted += 1
        return self.submitted

    def wait(self, value: int, timeout: float | None = None) -> None:
        """Returns when the device has reached `value`. Raises DeviceTimeout after `timeout` seconds, or DeviceLost."""
        if self.lost:
            raise self.lost
        self._target[0] = value
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = SLICE_SECONDS if deadline is None else min(SLICE_SECONDS, max(0.0, deadline - time.monotonic()))
            result = self._wait_call(self.device.handle, self._wait, int(left * 1e9))
            if result == 0:
                return
            if result < 0:
                self._failed(result, "vkWaitSemaphores")
            if deadline is not None and time.monotonic() >= deadline:
                label = self._latest.label if self._latest else "anything"
                raise DeviceTimeout(f"the device did not finish {label!r} within {timeout} s; it is at {self.reached()} of {value}")

    def reached(self) -> int:
        """The number of the last submission that has finished."""
        check(api().lib.vkGetSemaphoreCounterValue(self.device.handle, self.semaphore, self._reached), "vkGetSemaphoreCounterValue")
        return int(self._reached[0])

    def _failed(self, result: int, call: str) -> None:
        if result != LOST:
            check(result, call)
        self.lost = DeviceLost(self._latest.label, self._latest.describe())
        raise self.lost

    def close(self) -> None:
        """Waits for what is submitted, whatever its outcome, and destroys the semaphore."""
        vk = api()
        vk.lib.vkDeviceWaitIdle(self.device.handle)
        vk.lib.vkDestroySemaphore(self.device.handle, self.semaphore, vk.ffi.NULL)
