"""Ministral 3: Mistral whose queries grow with the logarithm of their position, after the rotation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import LlamaConfig, extended, forward, read_decoder
from hierarchos.models.mistral import MISTRAL_TINY
from hierarchos.models.rope_config import read_rope
from hierarchos.nn.attention import self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights

YARN = {"type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1}


@dataclass(frozen=True)
class Ministral3Config(LlamaConfig):
    """A query at position p is multiplied by 1 + growth * ln(1 + floor(p / original))."""

    growth: float = 0.0
    original: int = 1


def read(fields: Fields) -> Ministral3Config:
    """llama_4_scaling_beta and the first trained length stand in rope_parameters."""
    fields.assume(vocab_size=131072, intermediate_size=14336, num_hidden_layers=34, num_key_value_heads=8, head_dim=128,
                  max_position_embeddings=262144, rms_norm_eps=1e-5)
    if not fields.raw.get("rope_scaling"):
        fields.assume(rope_parameters=YARN)
    cfg = read_decoder(fields, rope=partial(read_rope, also=("llama_4_scaling_beta", "max_position_embeddings")))
    window = fields.integer("sliding_window", None)
    fields.only("layer_types", None, ["sliding_attention" if window else "full_attention"] * cfg.layers)
    given = fields.mapping("rope_scaling") or fields.mapping("rope_parameters")
    return extended(Ministral3Config, cfg, windows=(window,) * cfg.layers, growth=given.get("llama_4_scaling_beta") or 0.0,
                    original=given.get("original_max_position_embeddings", cfg.max_positions))


def query_growth(cfg: Ministral3Config, batch: Batch) -> Tensor:
    """The factor on each query, [B,T,1,1]."""
    import numpy as np

    table = 1 + cfg.growth * np.log(np.float64(1) + np.arange(batch.max_positions) // cfg.original)
    positions = F.reshape(batch.positions, (batch.ids.shape[0] * batch.ids.shape[1],))
    rows = F.gather_rows(F.constant(table.astype(np.float32)[:, None]), positions)
    return F.reshape(rows, (*batch.ids.shape, 1, 1))


def ministral3_forward(cfg: Ministral3Config, w: Weights, batch: Batch) -> Output:
    """Mistral with grown queries."""
    growth = query_growth(cfg, batch)

    def place(w: Weights, q: Tensor, k: Tensor, rotate) -> tuple[Tensor, Tensor]:
        return rotate(q) * growth, rotate(k)

    return forward(cfg, w, batch, attention=partial(self_attention, place=place))


FAMILY = Family("ministral3", read, ministral3_forward, tiny={
    **{name: value for name, value in MISTRAL_TINY.items() if name != "rope_theta"}, "model_type": "ministral3",
    "architectures": ["Ministral3ForCausalLM"], "head_dim": 32,
    "rope_parameters": {**YARN, "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}})
