"""Commands written once into command buffers and replayed."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hierarchos.vulkan.commands import Command, Copy, Dispatch
from hierarchos.vulkan.hazards import HazardTracker
from hierarchos.vulkan.loader import api, check, struct
from hierarchos.vulkan.ordering import fewest_barriers
from hierarchos.vulkan.splitting import RATES, estimate, split
from hierarchos.vulkan.submission import Submission
from hierarchos.vulkan.timestamps import Timestamps

if TYPE_CHECKING:
    from hierarchos.vulkan.device import Device

COMPUTE, TRANSFER, HOST = 0x800, 0x1000, 0x4000                                     # pipeline stages
WRITES, ALL = 0x40 | 0x1000, 0x20 | 0x40 | 0x800 | 0x1000                           # accesses: shader and transfer
HOST_READ = 0x2000
SIMULTANEOUS_USE = 0x4


class Recording:
    """A list of commands as command buffers: submit it as often as you like.

    dispatches, fills_and_copies, barriers, command_buffers: how many were recorded. With `device.reorder` the commands run in
    an order that keeps their dependencies and needs the fewest barriers; their results are the same bits.
    Replays of the same or another recording run one after the other. `close()` frees the command buffers; the
    device does so at its end."""

    def __init__(self, device: Device, commands: Sequence[Command], label: str, profile: bool):
        assert not profile or "timestamps" in device.info.features, f"{device.info.name} has no timestamps"
        self.device, self.label = device, label
        order = fewest_barriers(commands) if device.reorder and not profile else range(len(commands))
        self.commands = tuple(commands[i] for i in order)
        self.barriers = 0
        self.dispatches = sum(isinstance(command, Dispatch) for command in self.commands)
        self.fills_and_copies = len(self.commands) - self.dispatches
        self.last_value = 0
        device.pipelines.prepare((c.shader, c.constants) for c in self.commands if isinstance(c, Dispatch))
        self._timestamps = Timestamps(device, len(self.commands) + 1) if profile and self.commands else None
        self._tracker = HazardTracker()
        parts = split(self.commands, RATES[device.info.kind], device.max_submit_seconds)
        self._buffers = device.allocate_command_buffers(len(parts))
        for buffer, part in zip(self._buffers, parts, strict=True):
            self._record(buffer, part)
        self._submissions = [Submission(device.timeline, buffer, label, self.describe) for buffer in self._buffers]

    @property
    def command_buffers(self) -> int:
        return len(self._buffers)

    def _record(self, buffer, part: range) -> None:
        vk = api()
        begin = struct("VkCommandBufferBeginInfo", vk.VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                       flags=0 if self._timestamps else SIMULTANEOUS_USE)
        check(vk.lib.vkBeginCommandBuffer(buffer, begin), "vkBeginCommandBuffer")
        writer = CommandWriter(self.device, buffer)
        if part.start == 0:
            writer.barrier()                        # whatever was submitted earlier has finished and is visible
            if self._timestamps:
                self._timestamps.reset(buffer)
                self._timestamps.write(buffer, 0)
        for index in part:
            self._write(writer, index)
        if part.stop == len(self.commands):
            writer.barrier_to_host()
        check(vk.lib.vkEndCommandBuffer(buffer), "vkEndCommandBuffer")

    def _write(self, writer: CommandWriter, index: int) -> None:
        """One command with the barrier that it needs; when timed, alone between two timestamps."""
        hazard = self._tracker.needs_barrier(self.commands[index])
        self.barriers += hazard
        if hazard or (self._timestamps and index):
            writer.barrier()
        writer.write(self.commands[index])
        if self._timestamps:
            self._timestamps.write(writer.buffer, index + 1)

    def submit(self) -> int:
        """Starts one replay; returns the timeline value that marks its end."""
        assert self._submissions, "the recording is closed"
        if self._timestamps and self.last_value > self.device.timeline.reached():
            self.device.wait(self.last_value)       # its queries may not be reset while they are in use
        for submission in self._submissions:
            self.last_value = self.device.timeline.submit(submission)
        return self.last_value

    def run(self, timeout: float | None = None) -> None:
        """One replay from start to end."""
        self.device.timeline.wait(self.submit(), timeout)

    def timings(self) -> list[tuple[str, float]]:
        """Label and device seconds of each command in the last replay. Needs `profile=True` at recording."""
        assert self._timestamps or not self.commands, "record with profile=True to get timings"
        assert self.last_value, "the recording has not run"
        if not self.commands:
            return []
        self.device.wait(self.last_value)
        times = self._timestamps.seconds()
        return [(command.label, stop - start) for command, start, stop in zip(self.commands, times[:-1], times[1:], strict=True)]

    def describe(self, most: int = 5) -> list[str]:
        """Lines about its largest commands by estimated time, for error messages."""
        rates = RATES[self.device.info.kind]
        ranked = sorted(self.commands, key=lambda command: -estimate(command, rates))[:most]
        return [describe_command(command) for command in ranked]

    def close(self) -> None:
        """Frees command buffers and queries after the last replay has ended; may be called twice."""
        if not self._buffers or self.device.closed:
            return
        self.device.free_command_buffers(self._buffers, self.last_value)
        if self._timestamps:
            self._timestamps.close()
        self._buffers, self._submissions = [], []
        self.device.forget(self)


class CommandWriter:
    """Writes commands into one command buffer, with everything that does not change prepared."""

    def __init__(self, device: Device, buffer):
        vk = api()
        self.device, self.buffer, self.lib, self.null = device, buffer, vk.lib, vk.ffi.NULL
        self.pipeline = None
        self._between = struct("VkMemoryBarrier", vk.VK_STRUCTURE_TYPE_MEMORY_BARRIER, srcAccessMask=WRITES, dstAccessMask=ALL)
        self._host = struct("VkMemoryBarrier", vk.VK_STRUCTURE_TYPE_MEMORY_BARRIER, srcAccessMask=WRITES, dstAccessMask=HOST_READ)

    def barrier(self) -> None:
        """Everything before it has finished and is visible to everything after it."""
        self.lib.vkCmdPipelineBarrier(self.buffer, COMPUTE | TRANSFER, COMPUTE | TRANSFER, 0, 1, self._between, 0, self.null, 0, self.null)

    def barrier_to_host(self) -> None:
        """What was written is visible to the host once it has waited."""
        self.lib.vkCmdPipelineBarrier(self.buffer, COMPUTE | TRANSFER, HOST, 0, 1, self._host, 0, self.null, 0, self.null)

    def write(self, command: Command) -> None:
        if isinstance(command, Dispatch):
            self.dispatch(command)
        elif isinstance(command, Copy):
            self.copy(command)
        else:
            self.fill(command)

    def dispatch(self, command: Dispatch) -> None:
        assert len(command.push) <= 128, f"{command.label}: {len(command.push)} bytes of push constants, at most 128"
        assert all(1 <= n <= 65535 for n in command.groups), f"{command.label}: groups {command.groups} must be 1 to 65535 per axis"
        pipeline = self.device.pipelines.get(command.shader, command.constants)
        if pipeline != self.pipeline:
            self.lib.vkCmdBindPipeline(self.buffer, 1, pipeline)
            self.pipeline = pipeline
        if command.push:
            data = api().ffi.from_buffer(command.push)
            self.lib.vkCmdPushConstants(self.buffer, self.device.pipelines.layout, 0x20, 0, len(command.push), data)
        self.lib.vkCmdDispatch(self.buffer, *command.groups)

    def fill(self, command) -> None:
        span = command.span
        assert span.nbytes % 4 == 0 and span.address % 4 == 0, f"{command.label}: a fill covers whole 32-bit words"
        if span.nbytes:
            allocation, offset = self.device.memory.find(span.address, span.nbytes)
            self.lib.vkCmdFillBuffer(self.buffer, allocation.buffer, offset, span.nbytes, command.word & 0xFFFFFFFF)

    def copy(self, command: Copy) -> None:
        assert command.source.nbytes == command.target.nbytes, f"{command.label}: source and target differ in size"
        if not command.source.nbytes:
            return
        source, start = self.device.memory.find(command.source.address, command.source.nbytes)
        target, into = self.device.memory.find(command.target.address, command.target.nbytes)
        region = struct("VkBufferCopy", srcOffset=start, dstOffset=into, size=command.source.nbytes)
        self.lib.vkCmdCopyBuffer(self.buffer, source.buffer, target.buffer, 1, region)


def describe_command(command: Command) -> str:
    """`label  groups 8x4x1  2.1e9 operations  12.0 MiB`."""
    from hierarchos.vulkan.errors import megabytes
    if isinstance(command, Dispatch):
        groups = "x".join(map(str, command.groups))
        return f"{command.label}  groups {groups}  {command.operations:.2g} operations  {megabytes(int(command.bytes_moved))}"
    moved = command.source.nbytes if isinstance(command, Copy) else command.span.nbytes
    return f"{command.label}  {megabytes(moved)}"
