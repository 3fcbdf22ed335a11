"""Nemotron: Llama with LayerNorms whose weights are offsets from one, rotation of half of each head, and a plain MLP of squared ReLU."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import plain_mlp
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> LlamaConfig:
    """attention_bias is on all four projections."""
    fields.assume(vocab_size=256000, hidden_size=6144, intermediate_size=24576, num_attention_heads=48, max_position_embeddings=4096,
                  norm_eps=1e-5, initializer_range=0.0134, hidden_act="relu2", partial_rotary_factor=0.5)
    bias = fields.boolean("attention_bias", False)
    return replace(read_decoder(fields, eps="norm_eps"), qkv_bias=bias, output_bias=bias, mlp_bias=fields.boolean("mlp_bias", False))


def nemotron_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with LayerNorms and a plain MLP."""
    return forward(cfg, w, batch, norm=partial(Weights.layer_norm, offset=1.0), mlp=plain_mlp)


FAMILY = Family("nemotron", read, nemotron_forward, tiny={
    **{name: value for name, value in TINY.items() if name != "rms_norm_eps"}, "model_type": "nemotron", "norm_eps": 1e-5,
    "architectures": ["NemotronForCausalLM"], "hidden_act": "relu2", "intermediate_size": 512, "initializer_range": 0.0134})
