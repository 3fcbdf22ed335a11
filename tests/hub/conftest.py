"""A Hub of this machine, in this process: the client's settings point to it, nothing waits, the cache is empty."""
from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from tests.hub.server import HubServer


@pytest.fixture
def hub(monkeypatch, tmp_path):
    client = pytest.importorskip("huggingface_hub")
    from huggingface_hub import constants, file_download
    from huggingface_hub.utils import _http

    monkeypatch.delenv("HF_TOKEN", raising=False)
    quick = SimpleNamespace(**vars(time) | {"sleep": lambda seconds: None})
    for module in (_http, file_download):
        monkeypatch.setattr(module, "time", quick)
    with HubServer() as server:
        for name, value in {"ENDPOINT": server.url, "HF_HUB_CACHE": str(tmp_path / "cache"), "HF_TOKEN_PATH": str(tmp_path / "token"),
                            "HF_HUB_OFFLINE": False, "DOWNLOAD_CHUNK_SIZE": 1000, "HF_HUB_DISABLE_TELEMETRY": True,
                            "HUGGINGFACE_CO_URL_TEMPLATE": server.url + "/{repo_id}/resolve/{revision}/{filename}"}.items():
            monkeypatch.setattr(constants, name, value)
        point_datasets(monkeypatch, server, tmp_path)
        yield server
        client.close_session()


def point_datasets(monkeypatch, server: HubServer, folder) -> None:
    """The same for the `datasets` library."""
    datasets = pytest.importorskip("datasets")
    from huggingface_hub import HfFileSystem

    HfFileSystem.clear_instance_cache()
    for name, value in {"HF_ENDPOINT": server.url, "HF_DATASETS_CACHE": folder / "datasets", "HF_MODULES_CACHE": folder / "modules",
                        "HUB_DATASETS_URL": server.url + "/datasets/{repo_id}/resolve/{revision}/{path}"}.items():
        monkeypatch.setattr(datasets.config, name, value)
