"""A lost device is an ordinary exception that says what ran."""
import pytest

from hierarchos.vulkan import DeviceLost, FailAllocation, FailSubmit, OutOfMemory


def test_a_lost_device_names_the_submission_and_its_largest_kernels(own_device, axpy):
    device = own_device()
    memory = device.allocate(1 << 16, "arena")
    x, y = memory.address, memory.address + 4096
    commands = [axpy(x, y, 8, label="small"), axpy(x, y, 800, label="large")]
    recording = device.record(commands, label="train step")
    device.inject(FailSubmit(2))
    recording.run()
    with pytest.raises(DeviceLost) as error:
        recording.run()
    assert "lost while running 'train step'" in str(error.value)
    assert error.value.kernels[0].startswith("large  groups 100x1x1") and "shorten submissions" in str(error.value)


def test_after_the_loss_every_use_says_so_and_closing_works(own_device):
    device = own_device(faults=[FailSubmit(1)])
    recording = device.record([], label="first")
    with pytest.raises(DeviceLost):
        recording.run()
    with pytest.raises(DeviceLost, match="first"):
        recording.submit()
    with pytest.raises(DeviceLost):
        device.wait_idle()
    device.close()
    device.close()
    recording.close()


def test_faults_can_be_planted_at_opening(own_device):
    device = own_device(faults=[FailAllocation(1)])
    with pytest.raises(OutOfMemory, match="weights"):
        device.allocate(64, "weights")


def test_closing_frees_what_was_left_open(own_device, axpy):
    device = own_device()
    memory = device.allocate(1 << 16, "left open")
    device.record([axpy(memory.address, memory.address + 4096, 8)], profile="timestamps" in device.info.features).submit()
    device.close()
    assert device.closed and memory.view is None
