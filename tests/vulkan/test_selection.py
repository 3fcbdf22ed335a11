"""Choosing a device: what is preferred, and what a wrong choice says."""
import pytest

from hierarchos.vulkan.errors import DeviceChoiceError, NoDevice
from hierarchos.vulkan.info import DeviceInfo
from hierarchos.vulkan.selection import choose

SOFTWARE = DeviceInfo(0, "llvmpipe (LLVM 15)", "software", driver="llvmpipe Mesa 22.3.6")
INTEGRATED = DeviceInfo(1, "Intel(R) Iris(R) Xe", "integrated", driver="Intel Mesa 25.0")
DISCRETE = DeviceInfo(2, "AMD Radeon RX 6600", "discrete", driver="radv Mesa 25.0")
SECOND = DeviceInfo(3, "AMD Radeon RX 6600 XT", "discrete", driver="radv Mesa 25.0")
OLD = DeviceInfo(4, "GeForce GT 640", "discrete", driver="NVIDIA 418", missing=("timeline_semaphore", "int64"))
ALL = [SOFTWARE, INTEGRATED, DISCRETE, SECOND, OLD]


@pytest.mark.parametrize(("there", "expected"), [
    (ALL, DISCRETE), ([SOFTWARE, INTEGRATED], INTEGRATED), ([SOFTWARE, OLD], SOFTWARE),
    ([SOFTWARE, DeviceInfo(1, "virtio", "virtual")], DeviceInfo(1, "virtio", "virtual"))])
def test_auto_prefers_discrete_then_integrated_then_virtual_and_skips_the_unusable(there, expected):
    assert choose("auto", there) == expected


@pytest.mark.parametrize(("asked", "expected"), [
    (1, INTEGRATED), ("1", INTEGRATED), ("iris", INTEGRATED), ("LLVMPIPE", SOFTWARE), (" 6600 xt ", SECOND),
    ("AMD Radeon RX 6600", DISCRETE)])
def test_index_or_part_of_the_name_chooses(asked, expected):
    assert choose(asked, ALL) == expected


def test_unknown_name_lists_what_there_is():
    with pytest.raises(DeviceChoiceError) as error:
        choose("GTX 1080", [SOFTWARE, INTEGRATED])
    assert str(error.value) == (
        "no device matches device=GTX 1080; there is:\n"
        "  0  llvmpipe (LLVM 15)  (software, llvmpipe Mesa 22.3.6)\n"
        "  1  Intel(R) Iris(R) Xe  (integrated, Intel Mesa 25.0)\n"
        "  type device=auto, an index (device=1) or a part of one name")
    assert isinstance(error.value, ValueError)


def test_ambiguous_name_is_an_error():
    with pytest.raises(DeviceChoiceError, match=r"^2 devices match device=radeon;"):
        choose("radeon", ALL)


def test_index_out_of_range_is_an_error():
    with pytest.raises(DeviceChoiceError, match=r"^no device matches device=7;"):
        choose(7, ALL)


def test_a_device_without_required_features_says_which():
    with pytest.raises(DeviceChoiceError, match=r"^device=geforce is GeForce GT 640, which lacks timeline_semaphore, int64;"):
        choose("geforce", ALL)


@pytest.mark.parametrize(("there", "seen"), [([], "(none)"), ([OLD], "GeForce GT 640")])
def test_no_usable_device_lists_what_was_found(there, seen):
    with pytest.raises(NoDevice) as error:
        choose("auto", there)
    assert seen in str(error.value) and "apt install mesa-vulkan-drivers" in str(error.value)
