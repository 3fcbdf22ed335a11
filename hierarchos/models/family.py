"""A family entry of the registry, and a model: a family with a resolved configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph
from hierarchos.models.aliases import Wrapper
from hierarchos.models.config import Fields
from hierarchos.models.disk import SAME, Disk
from hierarchos.nn.batch import Batch, Output, input_batch
from hierarchos.nn.weights import ParameterSpec, Weights

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Family:
    """How one model_type is read and computed.

    tiny: config.json of a small model to train from nothing. base: prefix that packages of the bare model lack. embedding: the
    parameter that a tied head shares; head: its name where it is not tied. disk: how packages call and cut parameters.
    buffers: patterns of tensors in packages that are no parameters. keeps_others: packages hold more than the model, which is written out
    again as it was. constants(config): numbers that packages hold and the family fixes."""

    model_type: str
    read: Callable[[Fields], Any]
    forward: Callable[[Any, Weights, Batch], Output]
    tiny: dict = field(default_factory=dict)
    task: str = "causal"
    base: str = "model"
    embedding: str = "model.embed_tokens.weight"
    head: str = "lm_head.weight"
    disk: Disk = SAME
    constants: Callable[[Any], dict[str, float]] = lambda config: {}
    buffers: tuple[str, ...] = (r"rotary_emb\.inv_freq$",)
    keeps_others: bool = False


@dataclass(frozen=True, eq=False)
class Model:
    """A family and the resolved values of one config.json. `raw` is what was read, for export; `wrapper`: the model around this one."""

    family: Family
    config: Any
    raw: dict
    wrapper: Wrapper | None = None

    def weights(self, **options) -> Weights:
        """A fresh parameter table for one trace."""
        return Weights(std=self.config.initializer_range, **options)

    @property
    def is_part(self) -> bool:
        """Whether its packages hold more than this model."""
        return self.wrapper is not None or self.family.keeps_others

    @property
    def task(self) -> str:
        """causal, or masked: what it sees and is trained for. Some encoders are decoders where their config.json says so."""
        causal = getattr(self.config, "causal", None)
        return self.family.task if causal is None else "causal" if causal else "masked"

    def forward(self, w: Weights, batch: Batch) -> Output:
        """Traces the model into the current graph."""
        return self.family.forward(self.config, w, batch)

    @cached_property
    def parameters(self) -> tuple[ParameterSpec, ...]:
        """All parameters in order of first use (traced once at the smallest shape; computes nothing)."""
        w = self.weights()
        with tracing(Graph()):
            self.forward(w, input_batch(1, 1))
        return w.specs

    def initial_values(self, seed: int) -> dict[str, np.ndarray]:
        """float32 parameters as the reference initialises them (same distributions), from a seed."""
        from hierarchos.nn.initialise import initial_value

        return {spec.name: initial_value(spec, seed) for spec in self.parameters}

    @property
    def size(self) -> int:
        """Number of trained values; tied weights count once."""
        return sum(spec.size for spec in self.parameters)
