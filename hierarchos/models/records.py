"""What has been shown of each architecture: counts of comparisons that passed, written into records.json by the harnesses alone.

records.json: model_type -> kind -> device -> {"driver", "passed", "of"}."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("records.json")
REGISTERED = "registered"
KINDS = {
    "forward": "logits equal those of Transformers",
    "trained": "loss, every gradient and the parameters after AdamW steps equal those of PyTorch",
    "packages": "packages written here load in Transformers, and the reverse",
    "generates": "tokens that come one at a time have the logits of the whole text",
    "lora": "adapters equal those of PEFT",
}  # kind -> what it says where every comparison passed
SHOWN = {"forward": "forward", "trained": "trained", "generates": "generates", "lora": "LoRA"}      # kind -> word of a status


@dataclass(frozen=True)
class Verdict:
    """One run of a harness over all variants of an architecture: `passed` of `total` comparisons of a kind on a device."""

    model_type: str
    kind: str
    device: str
    driver: str
    passed: int
    total: int

    @property
    def complete(self) -> bool:
        return self.passed == self.total > 0


def verdicts() -> list[Verdict]:
    """All that the file holds."""
    raw = json.loads(FILE.read_text(encoding="utf-8"))
    return [Verdict(model_type, kind, device, entry["driver"], entry["passed"], entry["of"])
            for model_type, kinds in raw.items() for kind, devices in kinds.items() for device, entry in devices.items()]


def status() -> dict[str, list[str]]:
    """model_type -> registered, and the words of `SHOWN` for which all comparisons passed on a device."""
    from hierarchos.models.registry import FAMILIES

    complete = {(verdict.model_type, verdict.kind) for verdict in verdicts() if verdict.complete}
    return {name: [REGISTERED, *(word for kind, word in SHOWN.items() if (name, kind) in complete)] for name in FAMILIES}
