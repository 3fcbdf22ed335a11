"""Golden cases: numbers computed elsewhere, one safetensors file and one JSON file each. `fixtures/README.md` says what they hold."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from hierarchos.models.coherent_v9.config import Config, resolve
from hierarchos.models.coherent_v9.feeds import Rows

FOLDER = Path(__file__).parent / "fixtures"
STEPS = (
    "base_default_init",
    "full_random",
    "no_rosa",
    "no_deepembed",
    "no_routers",
    "warmup_gates",
    "depth_one",
    "act_deep",
    "wide_asym",
    "clamps",
    "ltm_topk_all",
)
CHUNKED = ("tbptt_chunks", "tbptt_detach4", "ltm_inner_update")


def own_name(name: str) -> str:
    """Our name of a learned tensor: the tied table has two."""
    return name.replace("tok_emb.weight", "lm_head.weight")


@dataclass(frozen=True)
class Case:
    """tensors: as in the file; facts: the JSON; values: learned tensors under our names."""

    name: str
    tensors: dict[str, np.ndarray]
    facts: dict
    cfg: Config

    @property
    def values(self) -> dict[str, np.ndarray]:
        return self.group("param.")

    def group(self, prefix: str) -> dict[str, np.ndarray]:
        """Tensors below a prefix, under our names."""
        return {own_name(name[len(prefix) :]): value for name, value in self.tensors.items() if name.startswith(prefix)}

    def rows(self) -> Rows:
        t = self.tensors
        return Rows.of(t["input_ids"], t["labels"], t["attention_mask"], t.get("loss_weights"))

    @property
    def warmup_step(self) -> float:
        return float(self.tensors.get("buffer.memory_gate_warmup_step", 0.0))


@cache
def case(name: str) -> Case:
    from safetensors.numpy import load_file

    facts = json.loads((FOLDER / f"{name}.json").read_text())
    return Case(name, load_file(FOLDER / f"{name}.safetensors"), facts, resolve(facts["config"]) if "config" in facts else None)


@cache
def vectors() -> dict:
    return json.loads((FOLDER / "vectors.json").read_text())


def worst(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], floor: float = 1e-4) -> tuple[float, str]:
    """The largest error relative to its tensor's largest value (or `floor`), and the tensor."""

    def error(name: str) -> float:
        return float(np.abs(found[name] - wanted[name]).max() / max(floor, np.abs(wanted[name]).max())) if wanted[name].size else 0.0

    return max((error(name), name) for name in wanted)
