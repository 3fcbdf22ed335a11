"""What is known about a device before it is opened."""
from __future__ import annotations

from dataclasses import dataclass

REQUIRED = ("vulkan 1.2", "compute queue", "buffer_device_address", "scalar_block_layout", "timeline_semaphore", "int64")


@dataclass(frozen=True)
class DeviceInfo:
    """Facts of one Vulkan device. Sizes in bytes.

    max_allocation: what every allocation may have at least. Some drivers give more (NVIDIA says 4 GiB and gives 40), so
    `Device.allocate` refuses only beyond max_buffer and lets the driver decide.

    kind: "discrete", "integrated", "virtual" or "software".
    compute_units: multiprocessors where an extension tells (NVIDIA, AMD), CPU cores for software, else 0.
    missing: required features that the device lacks; such a device is listed but cannot be opened.
    """

    index: int
    name: str
    kind: str
    vendor: str = ""
    driver: str = ""
    api_version: str = "1.2.0"
    heap_bytes: int = 0
    max_allocation: int = 0
    max_buffer: int = 0
    max_push_constants: int = 128
    max_groups: tuple[int, int, int] = (65535, 65535, 65535)
    max_group_size: tuple[int, int, int] = (128, 128, 64)
    max_invocations: int = 128
    shared_bytes: int = 16384
    subgroup: int = 0
    compute_units: int = 0
    timestamp_period: float = 0.0                   # nanoseconds a tick; 0 when there are no timestamps
    features: frozenset[str] = frozenset()
    matrices: tuple[tuple[str, int, int, int], ...] = ()        # of matrix units with fp32 sums: format of the operands, m, n, k
    missing: tuple[str, ...] = ()
    uuid: str = ""                                  # of the pipeline cache: changes with device and driver
    driver_version: int = 0

    @property
    def usable(self) -> bool:
        return not self.missing

    @property
    def formats(self) -> tuple[str, ...]:
        """Number formats that it can compute in: halves need 16-bit storage."""
        return ("fp32", "bf16", "fp16") if "storage16" in self.features else ("fp32",)

    @property
    def software(self) -> bool:
        return self.kind == "software"

    def line(self) -> str:
        """One line for lists and messages: index, name, kind and what is missing."""
        lacks = f"  lacks {', '.join(self.missing)}" if self.missing else ""
        return f"{self.index}  {self.name}  ({self.kind}, {self.driver}){lacks}"
