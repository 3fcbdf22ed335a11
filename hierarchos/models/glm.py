"""GLM: Llama with interleaved rotation of half of each head, biases on q, k and v, and gate and up in one projection."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import fused_gated_mlp
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> LlamaConfig:
    """attention_bias is on q, k and v only."""
    fields.assume(vocab_size=151552, hidden_size=4096, intermediate_size=13696, num_hidden_layers=40, num_attention_heads=32,
                  num_key_value_heads=2, head_dim=128, max_position_embeddings=131072, rms_norm_eps=1.5625e-7, partial_rotary_factor=0.5)
    return replace(read_decoder(fields, layout="interleaved"), qkv_bias=fields.boolean("attention_bias", True))


def glm_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with a fused gated MLP."""
    return forward(cfg, w, batch, mlp=fused_gated_mlp)


GLM_TINY = {**{name: value for name, value in TINY.items() if name != "mlp_bias"}, "head_dim": 32, "attention_bias": True}

FAMILY = Family("glm", read, glm_forward, tiny={**GLM_TINY, "model_type": "glm", "architectures": ["GlmForCausalLM"]})
