"""Seed-OSS: Llama with a flag for the bias of o_proj, and dropout on what attention and MLP give."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder


def read(fields: Fields) -> LlamaConfig:
    """attention_bias is that of q, k and v alone."""
    fields.assume(vocab_size=155136, intermediate_size=27648, num_hidden_layers=64, num_attention_heads=80, num_key_value_heads=8,
                  head_dim=128, max_position_embeddings=524288, attention_dropout=0.1)
    return replace(read_decoder(fields), qkv_bias=fields.boolean("attention_bias", True), mlp_bias=fields.boolean("mlp_bias", False),
                   output_bias=fields.boolean("attention_out_bias", False),
                   residual_dropout=fields.number("residual_dropout", 0.1, below=1.0))


FAMILY = Family("seed_oss", read, forward, tiny={
    **TINY, "model_type": "seed_oss", "architectures": ["SeedOssForCausalLM"], "head_dim": 32, "attention_bias": True,
    "attention_out_bias": False, "attention_dropout": 0.0, "residual_dropout": 0.0})
