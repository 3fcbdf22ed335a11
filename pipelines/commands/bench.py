"""usage: hierarchos bench [NAMES] [--json] [--profile] [device=SELECT]

Measures training steps and kernels; with PyTorch beside them, in the same run, where that is installed.
"""
from __future__ import annotations

from pipelines.commands.words import take
from pipelines.config.device import DeviceConfig
from pipelines.devices import find_device


def run(words: list[str]) -> int:
    """Prints a table, or JSON."""
    given = [word for word in words if word.startswith("device=")]
    flags, names = take([word for word in words if word not in given], "--json", "--profile", names=True)
    info = find_device(DeviceConfig(select=given[-1].partition("=")[2] if given else "auto"))
    from pipelines.bench.command import bench

    return bench(names, "--json" in flags, str(info.index), profile="--profile" in flags)
