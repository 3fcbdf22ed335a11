"""Opening: cheap import, facts, the validation layer, and what is printed about devices."""
import subprocess
import sys

import pytest

from hierarchos.vulkan import DeviceChoiceError, list_devices, open_device, validation_available
from hierarchos.vulkan.describe import HEADINGS, device_facts, device_rows


def test_importing_the_layer_loads_no_driver():
    code = "import sys, hierarchos.vulkan as v; v.Shader, v.DeviceInfo, v.choose; assert not {'vulkan', 'numpy', 'cffi'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there():
    import hierarchos.vulkan as layer
    assert all(getattr(layer, name) for name in layer.__all__)
    with pytest.raises(AttributeError):
        _ = layer.nonsense


def test_the_opened_device_has_what_is_required(device):
    info = device.info
    assert info in list_devices() and info.usable
    assert {"buffer_device_address", "scalar_block_layout", "timeline_semaphore", "int64"} <= info.features
    assert info.heap_bytes > 0 and 0 < info.max_allocation <= info.heap_bytes and info.max_push_constants >= 128
    assert info.subgroup >= 1 and info.shared_bytes >= 16384 and info.driver


def test_tables_have_a_cell_for_each_heading(device):
    assert all(len(row) == len(HEADINGS) for row in device_rows([device.info]))
    assert dict(device_facts(device.info))["name"] == device.info.name


def test_a_wrong_choice_opens_nothing():
    with pytest.raises(DeviceChoiceError, match="no device matches device=Voodoo2"):
        open_device("Voodoo2")


@pytest.mark.skipif(not validation_available(), reason="the validation layer is not installed")
def test_the_validation_layer_reports_misuse(tmp_path):
    from hierarchos.vulkan.recording import CommandWriter
    with open_device(validation=True, pipeline_folder=tmp_path) as device:
        memory = device.allocate(64, "memory")
        recording = device.record([])
        CommandWriter(device, recording._buffers[0]).lib.vkCmdFillBuffer(recording._buffers[0], memory.buffer, 2, 4, 0)
        assert any("vkCmdFillBuffer" in message for message in device.validation_messages)
