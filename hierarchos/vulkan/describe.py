"""What `hierarchos devices` prints."""
from __future__ import annotations

from hierarchos.vulkan.errors import megabytes
from hierarchos.vulkan.info import DeviceInfo

HEADINGS = ("index", "name", "kind", "driver", "Vulkan", "memory", "usable")


def device_rows(devices: list[DeviceInfo]) -> list[tuple[str, ...]]:
    """One row of texts for each device, under HEADINGS."""
    return [(str(d.index), d.name, d.kind, d.driver, d.api_version, megabytes(d.heap_bytes),
             "yes" if d.usable else "no: lacks " + ", ".join(d.missing)) for d in devices]


def device_facts(device: DeviceInfo) -> list[tuple[str, str]]:
    """Name and value of everything known about one device, for `hierarchos doctor`."""
    by_axis = " x ".join
    return [
        ("name", device.name), ("kind", device.kind), ("vendor", device.vendor), ("driver", device.driver), ("Vulkan", device.api_version),
        ("device memory", megabytes(device.heap_bytes)), ("largest allocation", megabytes(device.max_allocation)),
        ("shared memory", megabytes(device.shared_bytes)), ("subgroup", str(device.subgroup)),
        ("compute units", str(device.compute_units or "unknown")), ("push constants", f"{device.max_push_constants} bytes"),
        ("workgroups", by_axis(map(str, device.max_groups))), ("workgroup size", by_axis(map(str, device.max_group_size))),
        ("formats", ", ".join(device.formats)),
        ("matrix units", ", ".join(f"{format_} {m}x{n}x{k}" for format_, m, n, k in device.matrices) or "none with fp32 sums"),
        ("features", ", ".join(sorted(device.features))), ("lacks", ", ".join(device.missing) or "nothing that is required")]
