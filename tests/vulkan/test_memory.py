"""Allocations, transfers and what a failed allocation says."""
import numpy as np
import pytest

from hierarchos.vulkan import FailAllocation, OutOfMemory
from hierarchos.vulkan.memory import DEVICE_LOCAL, HOST_CACHED, HOST_COHERENT, HOST_VISIBLE, pick_type


@pytest.fixture(params=["mapped", "staged"])
def memory_of(request, device, monkeypatch):
    """Allocates as on a device that shares memory with the host, and as on one that does not."""
    if request.param == "mapped" and not device.memory.map_everything:
        pytest.skip("this device's memory is not visible to the host")
    monkeypatch.setattr(device.memory, "map_everything", request.param == "mapped")
    return device.allocate


@pytest.mark.parametrize("nbytes", [1, 4, 4097, 1 << 20])
def test_memory_starts_zeroed(device, memory_of, nbytes):
    allocation = memory_of(nbytes, "fresh")
    assert not device.download(allocation.address, nbytes).any()
    allocation.free()


def test_what_is_uploaded_is_downloaded(device, memory_of):
    allocation = memory_of(40_000, "numbers")
    values = np.random.default_rng(0).normal(size=(100, 31)).astype(np.float32)
    device.upload(allocation.address + 16, values)
    assert (device.download(allocation.address + 16, values.nbytes).view(np.float32) == values.reshape(-1)).all()
    assert not device.download(allocation.address, 16).any()
    allocation.free()


def test_transfers_longer_than_a_staging_piece_are_whole(device, monkeypatch):
    monkeypatch.setattr(device.memory, "map_everything", False)
    monkeypatch.setattr("hierarchos.vulkan.staging.PIECE_BYTES", 4096)
    allocation = device.allocate(20_000, "long")
    values = np.arange(5000, dtype=np.uint32)
    device.upload(allocation.address, values)
    assert (device.download(allocation.address, 20_000).view(np.uint32) == values).all()
    allocation.free()


def test_strided_arrays_and_empty_ones_upload(device, memory_of):
    allocation = memory_of(256, "strided")
    values = np.arange(64, dtype=np.int32).reshape(8, 8)
    device.upload(allocation.address, values.T)
    device.upload(allocation.address, values[:0])
    assert (device.download(allocation.address, 256).view(np.int32).reshape(8, 8) == values.T).all()
    assert device.download(allocation.address, 0).size == 0
    allocation.free()


def test_host_visible_memory_is_mapped(device):
    allocation = device.allocate(64, "inputs", host_visible=True)
    allocation.view[:4] = [1, 2, 3, 4]
    assert device.download(allocation.address, 4).tolist() == [1, 2, 3, 4]
    allocation.free()


def test_freeing_twice_is_harmless(device):
    used = device.memory.used
    allocation = device.allocate(64, "twice")
    allocation.free()
    allocation.free()
    assert device.memory.used == used and allocation.view is None


def test_addresses_outside_of_allocations_are_refused(device, arena):
    with pytest.raises(AssertionError, match="reach past arena"):
        device.download(arena.address, arena.nbytes + 1)


def test_allocation_beyond_the_limit_says_what_and_what_to_do(device, arena, monkeypatch):
    monkeypatch.setattr(device.memory, "allocations", [arena])          # other tests may have left larger ones on the device
    with pytest.raises(OutOfMemory) as error:
        device.allocate(device.info.max_buffer + 4, "activations")
    message = str(error.value)
    assert message.startswith("out of device memory: activations needs ") and "arena 1.0 MiB" in message
    assert "lower the batch size or the sequence length, recompute activations" in message


def test_planted_allocation_failure_leaves_the_device_usable(device):
    device.inject(FailAllocation(2))
    first = device.allocate(64, "first")
    with pytest.raises(OutOfMemory, match="second needs 64 bytes"):
        device.allocate(64, "second")
    third = device.allocate(64, "third")
    for allocation in (first, third):
        allocation.free()


def test_memory_types_are_picked_for_their_use():
    local, staging = DEVICE_LOCAL, HOST_VISIBLE | HOST_COHERENT | HOST_CACHED
    uncached, window = HOST_VISIBLE | HOST_COHERENT, DEVICE_LOCAL | HOST_VISIBLE | HOST_COHERENT
    discrete = [uncached, local, window, staging]
    assert pick_type(discrete, 0b1111, mapped=False, host_visible=False) == 1
    assert pick_type(discrete, 0b1111, mapped=True, host_visible=True) == 3
    assert pick_type(discrete, 0b0111, mapped=True, host_visible=True) == 0
    integrated = [window, window | HOST_CACHED]
    assert pick_type(integrated, 0b11, mapped=True, host_visible=False) == 1
