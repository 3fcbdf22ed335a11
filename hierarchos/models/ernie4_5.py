"""ERNIE 4.5: Llama with interleaved rotation, and one flag for all biases."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder


def read(fields: Fields) -> LlamaConfig:
    """use_bias is on all projections."""
    fields.assume(vocab_size=103424, hidden_size=1024, intermediate_size=3072, num_hidden_layers=18, num_attention_heads=16,
                  num_key_value_heads=2, head_dim=128, max_position_embeddings=131072, rms_norm_eps=1e-5, rope_theta=500000.0,
                  tie_word_embeddings=True)
    bias = fields.boolean("use_bias", False)
    return replace(read_decoder(fields, layout="interleaved"), qkv_bias=bias, output_bias=bias, mlp_bias=bias)


FAMILY = Family("ernie4_5", read, forward, tiny={
    **{name: value for name, value in TINY.items() if name not in ("attention_bias", "mlp_bias")},
    "model_type": "ernie4_5", "architectures": ["Ernie4_5ForCausalLM"], "head_dim": 32, "rope_theta": 500000.0})
