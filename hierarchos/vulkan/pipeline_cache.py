"""The driver's compiled pipelines, kept in a file between runs."""
from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.vulkan.info import DeviceInfo
from hierarchos.vulkan.loader import api, create, struct

if TYPE_CHECKING:
    from hierarchos.vulkan.device import Device

MAGIC = b"hierarchos pipelines 1\n"


def cache_folder() -> Path:
    """Where caches of this program live: `$XDG_CACHE_HOME/hierarchos`, else `~/.cache/hierarchos`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hierarchos"


def cache_file(info: DeviceInfo, folder: Path) -> Path:
    """One file for each device and driver version."""
    identity = f"{info.uuid}|{info.driver_version}|{info.driver}|{info.name}"
    return folder / "pipelines" / f"{sha256(identity.encode()).hexdigest()[:24]}.bin"


def read_cache(path: Path) -> bytes:
    """The driver's data, or nothing when the file is absent, unreadable, cut short or not ours."""
    try:
        content = path.read_bytes()
    except OSError:
        return b""
    digest, data = content[len(MAGIC):len(MAGIC) + 32], content[len(MAGIC) + 32:]
    return data if content.startswith(MAGIC) and sha256(data).digest() == digest else b""


def write_cache(path: Path, data: bytes) -> bool:
    """Replaces the file at once; a failure (disk full, no permission) only costs the cache, so it says False."""
    scratch = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            scratch = file.name
            file.write(MAGIC + sha256(data).digest() + data)
        os.replace(scratch, path)
        return True
    except OSError:
        if scratch:
            Path(scratch).unlink(missing_ok=True)
        return False


class PipelineCache:
    """A VkPipelineCache that starts from its file and is written back when pipelines were added."""

    def __init__(self, device: Device):
        self.device = device
        self.path = cache_file(device.info, device.cache_folder)
        self.changed = False
        data = read_cache(self.path)
        vk = api()
        info = struct("VkPipelineCacheCreateInfo", vk.VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, initialDataSize=len(data),
                      pInitialData=vk.ffi.new("char[]", data) if data else vk.ffi.NULL)
        self.handle = create("vkCreatePipelineCache", "VkPipelineCache", device.handle, info)
        self.loaded = bool(data)

    def save(self) -> bool:
        """Writes the file if pipelines were added since. Returns whether it was written."""
        if not self.changed:
            return False
        self.changed = False
        return write_cache(self.path, self.data())

    def data(self) -> bytes:
        vk = api()
        size = vk.ffi.new("size_t *")
        vk.lib.vkGetPipelineCacheData(self.device.handle, self.handle, size, vk.ffi.NULL)
        out = vk.ffi.new("char[]", max(1, size[0]))
        vk.lib.vkGetPipelineCacheData(self.device.handle, self.handle, size, out)
        return bytes(vk.ffi.buffer(out, size[0]))

    def close(self) -> None:
        self.save()
        api().lib.vkDestroyPipelineCache(self.device.handle, self.handle, api().ffi.NULL)
