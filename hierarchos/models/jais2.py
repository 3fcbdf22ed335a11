"""Jais 2: Llama with LayerNorms, biases everywhere, and a plain MLP of squared ReLU."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import plain_mlp
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> LlamaConfig:
    """Biases are there unless the flags say otherwise."""
    fields.assume(vocab_size=150272, hidden_size=3328, intermediate_size=26624, num_attention_heads=26, max_position_embeddings=8192,
                  layer_norm_eps=1e-5, hidden_act="relu2")
    bias = fields.boolean("attention_bias", True)
    return replace(read_decoder(fields, eps="layer_norm_eps"), qkv_bias=bias, output_bias=bias, mlp_bias=fields.boolean("mlp_bias", True))


def jais2_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with LayerNorms and a plain MLP."""
    return forward(cfg, w, batch, norm=Weights.layer_norm, mlp=plain_mlp)


FAMILY = Family("jais2", read, jais2_forward, tiny={
    **{name: value for name, value in TINY.items() if name != "rms_norm_eps"}, "model_type": "jais2", "layer_norm_eps": 1e-5,
    "architectures": ["Jais2ForCausalLM"], "hidden_act": "relu2", "intermediate_size": 512, "attention_bias": True, "mlp_bias": True})
