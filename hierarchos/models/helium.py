"""Helium: Llama with interleaved rotation, and no bias on the output projection."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder


def read(fields: Fields) -> LlamaConfig:
    """attention_bias is on q, k and v only."""
    fields.assume(vocab_size=48000, hidden_size=2560, intermediate_size=7040, num_hidden_layers=24, num_attention_heads=20, head_dim=128,
                  max_position_embeddings=4096, rms_norm_eps=1e-8, rope_theta=100000.0)
    return replace(read_decoder(fields, layout="interleaved"), qkv_bias=fields.boolean("attention_bias", False),
                   mlp_bias=fields.boolean("mlp_bias", False))


FAMILY = Family("helium", read, forward, tiny={
    **TINY, "model_type": "helium", "architectures": ["HeliumForCausalLM"], "head_dim": 32, "rms_norm_eps": 1e-8, "rope_theta": 100000.0})
