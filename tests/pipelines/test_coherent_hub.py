"""coherent-v9 from the Hub: fetched with its own configuration, used, and refused what it does not read, in processes of their own."""
from __future__ import annotations

import pytest

from tests.coherent_v9.small import talker
from tests.hub.server import HubServer

HUB = ("model=hub", "model.repo=owner/talker", "generate.prompt=to be", "generate.max_new_tokens=2")


@pytest.fixture
def hub(place, tmp_path, monkeypatch):
    """A Hub that holds a package."""
    talker(tmp_path)
    with HubServer() as server:
        server.add("models", "owner/talker", {path.name: path.read_bytes() for path in (tmp_path / "talker").iterdir()})
        for name, value in {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "*"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


def run(place, *words: str) -> tuple[int, str]:
    process = place.start(*words)
    _, err = process.communicate()
    return process.returncode, err


def test_package_of_the_hub_generates(place, hub):
    status, err = run(place, "generate", *HUB, "run.dir=made")
    assert status == 0, err
    assert (place.path / "made/stages/generate/text.txt").read_text(encoding="utf-8").startswith("to be")


def test_what_it_does_not_read_is_told_once_it_is_here(place, hub):
    status, err = run(place, "generate", *HUB, "generate.num_beams=4")
    assert status == 2 and "generate.num_beams=4 is not there for coherent-v9" in err and "Traceback" not in err
