"""Fixtures that every test may use."""
from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def device():
    """The default device; tests that need one are skipped on a machine that has none."""
    from hierarchos.vulkan import NoDevice, NoVulkan, open_device
    try:
        opened = open_device("auto")
    except (NoVulkan, NoDevice) as problem:
        pytest.skip(f"no Vulkan device: {problem}")
    yield opened
