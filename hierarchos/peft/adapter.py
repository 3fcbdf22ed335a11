"""One named adapter on a model: its configuration and what it means for this model."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hierarchos.errors import UserError
from hierarchos.peft.config import LoraConfig
from hierarchos.peft.select import Plan

DEFAULT = "default"


@dataclass(frozen=True)
class Rates:
    """LoRA+, as PEFT's create_loraplus_optimizer groups parameters: `b` for B matrices and all vectors, `embedding` for both
    matrices beside an embedding, 1 for everything else."""

    b: float = 1.0
    embedding: float = 1.0

    def of(self, leaf: str, shape: Sequence[int]) -> float:
        """leaf: a parameter's name in PEFT's file."""
        if ".lora_embedding_" in leaf:
            return self.embedding
        return self.b if ".lora_B." in leaf or len(shape) == 1 else 1.0


EVEN = Rates()


@dataclass(frozen=True, eq=False)
class Adapter:
    """name: what it is called here; rates: learning rates of its parts to that of the run."""

    name: str
    config: LoraConfig
    plan: Plan
    rates: Rates = EVEN

    def __post_init__(self):
        if not self.name or not self.name.replace("-", "").replace("_", "").isalnum():
            raise UserError(f"{self.name!r} cannot be the name of an adapter", hint="letters, digits, - and _ make one")

    def parameter(self, leaf: str) -> str:
        """The name of a parameter in a store. leaf: `model.layers.0.self_attn.q_proj.lora_A.weight`."""
        return f"{self.name}:{leaf}"

    def leaf(self, parameter: str) -> str | None:
        """What `parameter` made a name of, None where the parameter is not this adapter's."""
        owner, mark, leaf = parameter.partition(":")
        return leaf if mark and owner == self.name else None

    def replaces(self, full: str) -> bool:
        """Whether the adapter has its own copy of a parameter of the base."""
        return full in self.plan.biases or full.rpartition(".")[0] in self.plan.saved

    def leaf_of(self, full: str) -> str:
        """What PEFT's file calls the copy: the bias of a module with matrices lies in its base layer."""
        module, _, last = full.rpartition(".")
        inside = full in self.plan.biases and module in self.plan.loras
        return f"{module}.base_layer.{last}" if inside else full

    def base_name(self, leaf: str) -> str:
        """The parameter of the base that a copy starts from."""
        return leaf.replace(".base_layer.", ".")
