"""Recordings: results, counts, replay, parts and timings."""
import time

import numpy as np
import pytest

from hierarchos.vulkan import Copy, DeviceTimeout, Fill, Span


def floats(device, address: int, n: int) -> np.ndarray:
    return device.download(address, 4 * n).view(np.float32)


def test_a_chain_of_dispatches_sees_its_own_results_and_replays(device, arena, axpy):
    x, y, n = arena.address, arena.address + 4096, 1000
    device.upload(x, np.arange(n, dtype=np.float32))
    recording = device.record([axpy(x, y, n, a=2.0)] * 50)
    assert (recording.dispatches, recording.barriers, recording.command_buffers) == (50, 49, 1)
    recording.run()
    recording.run()
    assert (floats(device, y, n) == 200.0 * np.arange(n)).all()
    recording.close()


def test_independent_dispatches_get_no_barrier(device, arena, axpy):
    recording = device.record([axpy(arena.address, arena.address + 4096 * i, 100) for i in range(1, 9)])
    assert recording.barriers == 0
    recording.close()


def test_fills_and_copies_are_ordered_with_dispatches(device, arena, axpy):
    x, y, z = (arena.address + 4096 * i for i in range(3))
    one = int(np.float32(1.0).view(np.uint32))
    recording = device.record([Fill(Span(x, 400), one), axpy(x, y, 100, a=3.0), Copy(Span(y, 400), Span(z, 400)), axpy(x, z, 100)])
    recording.run()
    assert recording.barriers == 3 and recording.fills_and_copies == 2
    assert (floats(device, z, 100) == 4.0).all()
    recording.close()


def test_specialization_constants_make_their_own_pipelines(device, arena, axpy):
    y = arena.address + 4096
    device.upload(y, np.zeros(8, np.float32))
    recording = device.record([axpy(arena.address, y, 8, a=0.0, extra=5), axpy(arena.address, y, 8, a=0.0, extra=7)])
    recording.run()
    assert (floats(device, y, 8) == 12.0).all()
    recording.close()


def test_several_replays_may_be_under_way(device, arena, axpy):
    y = arena.address + 4096
    device.upload(arena.address, np.ones(8, np.float32))
    recording = device.record([axpy(arena.address, y, 8)])
    values = [recording.submit() for _ in range(10)]
    device.wait(values[-1])
    assert values == list(range(values[0], values[0] + 10))
    assert (floats(device, y, 8) == 10.0).all()
    recording.close()


def test_long_recordings_are_cut_into_bounded_parts_with_the_same_result(device, arena, axpy, monkeypatch):
    y = arena.address + 4096
    device.upload(arena.address, np.ones(8, np.float32))
    monkeypatch.setattr(device, "max_submit_seconds", 5e-4)
    recording = device.record([axpy(arena.address, y, 8)] * 100)
    assert recording.command_buffers > 1 and recording.barriers == 99
    recording.run()
    assert (floats(device, y, 8) == 100.0).all()
    recording.close()


def test_reordered_commands_give_the_same_result_with_fewer_barriers(device, arena, axpy, monkeypatch):
    device.upload(arena.address, np.arange(8, dtype=np.float32))
    chains = [axpy(arena.address, arena.address + 4096 * i, 8) for i in range(1, 5) for _ in range(10)]
    counts = []
    for reorder in (False, True):
        device.upload(arena.address + 4096, np.zeros(5 * 1024, np.float32))
        monkeypatch.setattr(device, "reorder", reorder)
        recording = device.record(chains)
        recording.run()
        counts.append(recording.barriers)
        assert all((floats(device, arena.address + 4096 * i, 8) == 10 * np.arange(8)).all() for i in range(1, 5))
        recording.close()
    assert counts == [36, 9]


def test_an_empty_recording_runs(device):
    recording = device.record([])
    recording.run()
    recording.close()
    recording.close()


def test_timings_name_every_command_and_fit_into_the_wall_time(device, arena, axpy):
    if "timestamps" not in device.info.features:
        pytest.skip("no timestamps")
    y = arena.address + 400_000
    commands = [axpy(arena.address, y, 100_000, label=f"axpy {i}") for i in range(5)] + [Fill(Span(y, 400_000))]
    recording = device.record(commands, profile=True)
    for _ in range(2):
        start = time.perf_counter()
        recording.run()
        wall = time.perf_counter() - start
        timings = recording.timings()
        assert [label for label, _ in timings] == [command.label for command in commands]
        assert all(seconds >= 0 for _, seconds in timings) and 0 < sum(seconds for _, seconds in timings) <= wall
    recording.close()


def test_timings_span_several_query_pools(device, arena, axpy, monkeypatch):
    if "timestamps" not in device.info.features:
        pytest.skip("no timestamps")
    monkeypatch.setattr("hierarchos.vulkan.timestamps.POOL_QUERIES", 4)
    recording = device.record([axpy(arena.address, arena.address + 4096, 8)] * 10, profile=True)
    recording.run()
    assert len(recording.timings()) == 10 and all(0 <= seconds < 1 for _, seconds in recording.timings())
    recording.close()


def test_waiting_has_a_limit(device):
    with pytest.raises(DeviceTimeout, match=r"within 0\.01 s; it is at"):
        device.wait(device.timeline.submitted + 1, timeout=0.01)


def test_limits_are_asserted(device, arena, axpy):
    from dataclasses import replace
    with pytest.raises(AssertionError, match="1 to 65535 per axis"):
        device.record([replace(axpy(arena.address, arena.address + 4096, 8), groups=(65536, 1, 1))])
    with pytest.raises(AssertionError, match="at most 128"):
        device.record([replace(axpy(arena.address, arena.address + 4096, 8), push=bytes(132))])
