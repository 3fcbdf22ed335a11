"""Arcee: Llama with a plain MLP of squared ReLU in place of the gated one."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import plain_mlp
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> LlamaConfig:
    """As Llama, with other defaults."""
    fields.assume(hidden_size=2560, intermediate_size=18432, max_position_embeddings=4096, rms_norm_eps=1e-5, hidden_act="relu2")
    bias = fields.boolean("attention_bias", False)
    return replace(read_decoder(fields), qkv_bias=bias, output_bias=bias, mlp_bias=fields.boolean("mlp_bias", False))


def arcee_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with a plain MLP."""
    return forward(cfg, w, batch, mlp=plain_mlp)


FAMILY = Family("arcee", read, arcee_forward, tiny={
    **TINY, "model_type": "arcee", "architectures": ["ArceeForCausalLM"], "hidden_act": "relu2", "intermediate_size": 512})
