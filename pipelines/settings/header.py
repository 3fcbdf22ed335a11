"""Which settings a file speaks about: its `# @package` line, or what its folder says.

Hydra alone reads that line only as the very first one, and a file without it silently sets keys that nothing
reads. Here it may stand anywhere among the leading comments, and files of experiment/, pipeline/ and local/ speak
about all settings when they have none.
"""
from __future__ import annotations

import re

from pipelines.settings.folders import GLOBAL_GROUPS

LINE = re.compile(r"#\s*@package\s+(\S+)\s*$")


def package_of(name: str, text: str) -> str:
    """Dotted place of a file's keys, "" for the top: "model" for model/llama_tiny, "" for experiment/mine."""
    for line in text.lstrip("\ufeff").splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            break
        if match := LINE.match(line):
            return "" if match[1] in ("_global_", "_root_") else match[1].replace("_group_", _group(name))
    return _group(name)


def _group(name: str) -> str:
    """Files in sub-folders belong to the same group: model/mine/small is a model."""
    group = name.partition("/")[0] if "/" in name else ""
    return "" if group in GLOBAL_GROUPS else group
