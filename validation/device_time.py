"""Time of recordings on a Vulkan device, and of PyTorch's products on CUDA: what the benchmarks of matrix products share."""
from __future__ import annotations

import time
from collections.abc import Callable

EMPTY = 40e-6                                       # seconds of a submission of nothing on the H200


def seconds_each(device, commands: list, repeats: int, rounds: int = 3) -> float:
    """Least seconds of `commands`, recorded `repeats` times in one submission, in `rounds` replays after a first one."""
    recording = device.record(commands * repeats)
    recording.run()
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        recording.run()
        times.append(time.perf_counter() - begun)
    recording.close()
    return (min(times) - EMPTY) / repeats


def cuda_seconds(operands: Callable[[], tuple], transposes: tuple[bool, bool]) -> float | None:
    """Least seconds of PyTorch's product of two matrices, ten in a row; None without CUDA. operands: gives them as CUDA tensors."""
    try:
        import torch
        assert torch.cuda.is_available()
    except (ImportError, AssertionError):
        return None
    a, b = (x.T if transposed else x for x, transposed in zip(operands(), transposes, strict=True))
    repeats, times = 10, []
    for _ in range(4):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            torch.matmul(a, b)
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / repeats / 1e3)
    return min(times)
