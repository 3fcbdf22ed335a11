"""Fixtures that every test may use."""
from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def device(tmp_path_factory):
    """The default device, under the validation layer where that is installed; the layer must have had nothing to say."""
    from hierarchos.vulkan import open_device, validation_available
    opened = open_device("auto", validation=validation_available(), pipeline_folder=tmp_path_factory.mktemp("pipelines"))
    yield opened
    opened.close()
    assert opened.validation_messages == []
