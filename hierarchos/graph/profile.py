"""What lowerings may know about an opened device."""
from __future__ import annotations

from dataclasses import replace

from hierarchos.graph.matrix_layouts import layouts_of
from hierarchos.kernels.launch import JOINED_LOADS, Profile

CPU_CHUNK_BYTES = 4 << 20                           # a block of logits that stays in a CPU's caches
GPU_CHUNK_BYTES = 64 << 20, 256 << 20               # at least, at most: a 128th of the memory between


def profile_of(device) -> Profile:
    """The profile of an opened device, from `device.info`."""
    info = device.info
    profile = Profile(
        device_class="cpu" if info.software else "gpu",
        subgroup=info.subgroup or (8 if info.software else 32),
        shared_bytes=info.shared_bytes,
        max_groups=min(65535, *info.max_groups),
        compute_units=info.compute_units or (2 if info.software else 16),
        features=frozenset(info.features) | ({JOINED_LOADS} if joins_loads(info) else set()),
        chunk_bytes=CPU_CHUNK_BYTES if info.software else gpu_chunk_bytes(info.heap_bytes),
        matrices=info.matrices,
        split=getattr(device, "split", True),       # a description of a device will do for plans
        tuned=tuple(sorted(getattr(device, "tuned", {}).items())),   # a description of a device will do for plans
    )
    return profile if info.software else replace(profile, layouts=layouts_of(device, profile))


def joins_loads(info) -> bool:
    """Whether the driver's compiler joins loads of lanes side by side (shaders/include/wide.glsl): Mesa 22.3 does, 25.0 does not."""
    return info.software and "Mesa 22." in info.driver


def gpu_chunk_bytes(heap_bytes: int) -> int:
    """Largest transient block of logits: enough rows to fill the device, a small part of its memory."""
    least, most = GPU_CHUNK_BYTES
    return max(least, min(most, heap_bytes // 128))
