"""`device.autotune`: where it is on, what run.json keeps, and what a resumed run follows."""
from __future__ import annotations

from types import SimpleNamespace

import pytest

from hierarchos.vulkan.info import DeviceInfo
from pipelines.config.device import DeviceConfig
from pipelines.tuning import tuned

CHOICE = {"NT 512x256x1024 x1": (64, 64, 16, 8, 8, 1, 2)}


class Run:
    def __init__(self, manifest: dict):
        self.manifest = manifest

    def save(self, **changes):
        self.manifest |= changes


def context(tmp_path, kind: str = "discrete", manifest: dict | None = None, **settings):
    device = SimpleNamespace(info=DeviceInfo(0, "a device", kind), cache_folder=tmp_path, autotune=False, tuned={})
    lines: list[str] = []
    return SimpleNamespace(device=device, config=SimpleNamespace(device=DeviceConfig(**settings)), run=Run(manifest or {}),
                           progress=SimpleNamespace(line=lines.append), lines=lines)


@pytest.mark.parametrize(("kind", "setting", "on"), [("discrete", None, True), ("software", None, False), ("software", True, True),
                                                     ("integrated", False, False)])
def test_where_products_are_measured(tmp_path, kind, setting, on):
    made = context(tmp_path, kind, autotune=setting)
    with tuned(made):
        assert made.device.autotune == on
    assert not made.device.autotune


def test_choices_are_kept_with_the_run_and_followed_when_it_is_resumed(tmp_path):
    first = context(tmp_path)
    with tuned(first):
        first.device.tuned |= CHOICE
    assert first.run.manifest["tuning"]["products"] == CHOICE and len(first.lines) == 1
    resumed = context(tmp_path, manifest=first.run.manifest, autotune=False)
    with tuned(resumed):
        assert resumed.device.tuned == CHOICE
    assert not resumed.lines
    elsewhere = context(tmp_path, manifest={"tuning": {"device": "another", "products": CHOICE}}, autotune=False)
    with tuned(elsewhere):
        assert elsewhere.device.tuned == {}
