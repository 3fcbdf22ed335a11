"""An opened device: memory, pipelines, recordings and the queue."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.vulkan import features
from hierarchos.vulkan.commands import Command, Shader
from hierarchos.vulkan.faults import FailAllocation, FailSubmit, Faults
from hierarchos.vulkan.info import DeviceInfo
from hierarchos.vulkan.instance import Instance
from hierarchos.vulkan.loader import api, check, create, names, struct
from hierarchos.vulkan.memory import Allocation, Memory
from hierarchos.vulkan.pipeline_cache import cache_folder
from hierarchos.vulkan.pipelines import Pipelines
from hierarchos.vulkan.probe import device_extensions, queue_family
from hierarchos.vulkan.recording import Recording
from hierarchos.vulkan.selection import choose
from hierarchos.vulkan.splitting import SUBMIT_SECONDS
from hierarchos.vulkan.staging import Staging
from hierarchos.vulkan.submission import Timeline

if TYPE_CHECKING:
    import numpy as np

EXTRA_EXTENSIONS = ("VK_KHR_portability_subset",)   # must be enabled where it is listed (MoltenVK)


def open_device(selector: str | int = "auto", validation: bool = False, *, faults: Sequence[FailSubmit | FailAllocation] = (),
                pipeline_folder: Path | None = None) -> Device:
    """Opens the device that `selector` names ("auto", an index, a part of the name).

    validation: run under the Khronos validation layer, which collects complaints in `device.validation_messages`.
    faults: failures planted for tests. pipeline_folder: where the pipeline cache file lives (default: the user's cache).
    Raises NoVulkan, NoDevice or DeviceChoiceError."""
    instance = Instance(validation)
    try:
        info = choose(selector, instance.devices())
        return Device(instance, info, faults, pipeline_folder or cache_folder())
    except BaseException:
        instance.close()
        raise


class Device:
    """One opened device, used from one thread. Close it, or use it in a `with` block; closing frees everything.

    max_submit_seconds: bound of the estimated device time of one command buffer; None for no bound.
    reorder: whether recordings may reorder independent commands (a software device gains nothing by it).
    Both apply to recordings made afterwards. autotune: whether programs compiled afterwards have their matrix products measured
    (hierarchos/graph/tuning.py); tuned: what was chosen, which all plans follow. split: whether programs compiled afterwards may take
    their fp32 products on half-precision matrix units (kernels/gemm_split.py)."""

    def __init__(self, instance: Instance, info: DeviceInfo, faults: Sequence[FailSubmit | FailAllocation], folder: Path):
        self.instance, self.info, self.cache_folder = instance, info, folder
        self.faults = Faults(*faults)
        self.closed = False
        self.max_submit_seconds: float | None = SUBMIT_SECONDS[info.kind]
        self.reorder = not info.software
        self.autotune, self.tuned = False, dict[str, tuple[int, ...]]()
        self.split = True
        self.physical = instance.physical_devices()[info.index]
        family, self.timestamp_bits = queue_family(self.physical)
        self.handle = self._create(family)
        queue = api().ffi.new("VkQueue *")
        api().lib.vkGetDeviceQueue(self.handle, family, 0, queue)
        self._recordings: set[Recording] = set()
        self._pool = self._create_pool(family)
        self.timeline = Timeline(self, queue[0])
        self.memory, self.pipelines, self.staging = Memory(self), Pipelines(self), Staging(self)

    def _create(self, family: int):
        vk = api()
        extensions = device_extensions(self.physical)
        major, minor, _ = map(int, self.info.api_version.split("."))
        groups = features.available_groups((major, minor), extensions)
        wanted = features.needed_extensions(groups, extensions) + [name for name in EXTRA_EXTENSIONS if name in extensions]
        queue = struct("VkDeviceQueueCreateInfo", vk.VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, queueFamilyIndex=family, queueCount=1,
                       pQueuePriorities=vk.ffi.new("float[]", [1.0]))
        info = struct("VkDeviceCreateInfo", vk.VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, pNext=features.enable(groups, self.info.features),
                      queueCreateInfoCount=1, pQueueCreateInfos=queue, enabledExtensionCount=len(wanted),
                      ppEnabledExtensionNames=names(wanted))
        return create("vkCreateDevice", "VkDevice", self.physical, info)

    def _create_pool(self, family: int):
        vk = api()
        info = struct("VkCommandPoolCreateInfo", vk.VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, queueFamilyIndex=family)
        return create("vkCreateCommandPool", "VkCommandPool", self.handle, info)

    @property
    def validation_messages(self) -> list[str]:
        """What the validation layer complained about so far."""
        return self.instance.messages

    def inject(self, *faults: FailSubmit | FailAllocation) -> None:
        """Plants faults for a test, counted from now."""
        self.faults.inject(*faults)

    def allocate(self, nbytes: int, label: str, host_visible: bool = False) -> Allocation:
        """Zeroed memory of at least `nbytes`. Mapped where the host can see device memory anyway (software and integrated
        devices) or with `host_visible=True`. Raises OutOfMemory."""
        allocation = self.memory.allocate(nbytes, label, host_visible)
        if not allocation.mapped:
            self.staging.clear(allocation)
        return allocation

    def upload(self, address: int, array: np.ndarray) -> None:
        """Writes an array (any dtype, made contiguous) to device memory; waits for running work first."""
        import numpy as np
        self.staging.upload(address, np.ascontiguousarray(array).reshape(-1).view(np.uint8))

    def download(self, address: int, nbytes: int) -> np.ndarray:
        """Reads device memory into a new uint8 array; waits for running work first."""
        return self.staging.download(address, nbytes)

    def prepare(self, shaders: Iterable[tuple[Shader, tuple[int, ...]]]) -> int:
        """Makes the pipelines of (shader, constants) pairs ahead, on all cores. Returns how many were new."""
        return self.pipelines.prepare(shaders)

    def record(self, commands: Sequence[Command], profile: bool = False, label: str = "recording") -> Recording:
        """Writes commands once for many replays. `profile=True` times each command (and runs them one at a time)."""
        recording = Recording(self, commands, label, profile)
        self._recordings.add(recording)
        return recording

    def execute(self, commands: Sequence[Command], label: str = "commands") -> None:
        """Records commands, runs them once to their end, and frees the recording."""
        recording = self.record(commands, label=label)
        recording.run()
        recording.close()

    def wait(self, value: int, timeout: float | None = None) -> None:
        """Returns when the submission numbered `value` has finished. Raises DeviceTimeout or DeviceLost."""
        self.timeline.wait(value, timeout)

    def wait_idle(self) -> None:
        """Returns when everything submitted has finished."""
        self.timeline.wait(self.timeline.submitted)

    def allocate_command_buffers(self, count: int) -> list:
        vk = api()
        info = struct("VkCommandBufferAllocateInfo", vk.VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, commandPool=self._pool,
                      level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=count)
        buffers = vk.ffi.new("VkCommandBuffer[]", count)
        check(vk.lib.vkAllocateCommandBuffers(self.handle, info, buffers), "vkAllocateCommandBuffers")
        return list(buffers)

    def free_command_buffers(self, buffers: list, last_value: int) -> None:
        """Frees command buffers once the submission numbered `last_value` has finished."""
        vk = api()
        if self.timeline.lost:
            vk.lib.vkDeviceWaitIdle(self.handle)
        else:
            self.wait(last_value)
        vk.lib.vkFreeCommandBuffers(self.handle, self._pool, len(buffers), vk.ffi.new("VkCommandBuffer[]", buffers))

    def forget(self, recording: Recording) -> None:
        self._recordings.discard(recording)

    def close(self) -> None:
        """Waits for the device and frees everything in the right order; may be called twice."""
        if self.closed:
            return
        vk = api()
        vk.lib.vkDeviceWaitIdle(self.handle)
        for recording in list(self._recordings):
            recording.close()
        self.memory.close()
        self.pipelines.close()
        self.timeline.close()
        vk.lib.vkDestroyCommandPool(self.handle, self._pool, vk.ffi.NULL)
        vk.lib.vkDestroyDevice(self.handle, vk.ffi.NULL)
        self.instance.close()
        self.closed = True

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_) -> None:
        self.close()
