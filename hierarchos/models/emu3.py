"""Emu3's text model: Llama with dropout on what attention and MLP give, of the attention's probability."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder


def read(fields: Fields) -> LlamaConfig:
    """Biases are never there, whatever the two flags would say."""
    fields.assume(vocab_size=184622, intermediate_size=14336, num_key_value_heads=8, max_position_embeddings=9216, rms_norm_eps=1e-5,
                  rope_theta=1e6, attention_dropout=0.1)
    fields.only("attention_bias", False)
    fields.only("mlp_bias", False)
    cfg = read_decoder(fields)
    return replace(cfg, residual_dropout=cfg.attention_dropout)


FAMILY = Family("emu3_text_model", read, forward, tiny={
    **TINY, "model_type": "emu3_text_model", "architectures": ["Emu3ForCausalLM"], "attention_dropout": 0.0})
