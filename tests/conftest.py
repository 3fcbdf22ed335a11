"""Fixtures that every test may use."""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def device(tmp_path_factory):
    """The default device, under the validation layer where that is installed; the layer must have had nothing to say."""
    from hierarchos.vulkan import open_device, validation_available
    opened = open_device("auto", validation=validation_available(), pipeline_folder=tmp_path_factory.mktemp("pipelines"))
    yield opened
    opened.close()
    assert opened.validation_messages == []


@pytest.fixture(scope="session")
def tiny_model():
    from hierarchos.models.registry import resolve
    from tests.tiny import TINY

    return resolve(dict(TINY))


@pytest.fixture
def tiny_trainer(device, tmp_path, tiny_model):
    """tiny_trainer(folder="a", **settings) -> a Trainer that has not started."""
    from hierarchos.training.loop import Trainer
    from tests.tiny import RandomBatches, Settings

    def make(folder: str = "run", batches=None, model=tiny_model, seed: int = 7, observer=None, **changes):
        settings = replace(Settings(), **changes)
        batches = batches or RandomBatches(settings.batch_size, settings.sequence_length)
        validation = [RandomBatches(3, 9, seed=99).batch(number) for number in range(2)]
        return Trainer(model, settings, batches, validation, device, tmp_path / folder, seed=seed, observer=observer)

    return make


def pytest_itemcollected(item) -> None:
    """`-k BR07` finds the tests of a public complaint by its number (tests/pains.py)."""
    from tests.pains import numbers_of

    name, _, row = item.name.partition("[")
    path = item.path.relative_to(Path(__file__).parent).as_posix()
    item.extra_keyword_matches.update(numbers_of(path, name, row.removesuffix("]")))
