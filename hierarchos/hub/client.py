"""The Hub's own client, set up as a command line wants it: no telemetry, and no progress bars where nobody watches."""
from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import ModuleType

COMMIT = re.compile(r"[0-9a-f]{40}")


def hub_client() -> ModuleType:
    """`huggingface_hub`, imported when the first thing is fetched. HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_OFFLINE are its own."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")          # the client reads it when it is imported
    import huggingface_hub
    from huggingface_hub import constants, errors, utils  # noqa: F401 (parts of the module that are not there before they are imported)

    if not sys.stderr.isatty():
        huggingface_hub.utils.disable_progress_bars()
    return huggingface_hub


def endpoint() -> str:
    """The server that is asked."""
    return str(hub_client().constants.ENDPOINT)


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids to ask."""
    return bool(hub_client().constants.HF_HUB_OFFLINE)


def has_token() -> bool:
    """Whether HF_TOKEN or an earlier login gives a token."""
    return hub_client().get_token() is not None


def cached_names(kind: str) -> list[str]:
    """Repositories of a kind ("model", "dataset") that the cache holds, as owner/name."""
    folders = Path(hub_client().constants.HF_HUB_CACHE).glob(f"{kind}s--*")
    return sorted("/".join(folder.name.split("--")[1:]) for folder in folders)
