"""CWM: Llama without biases, with a sliding window on three of four layers."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.layers import every, read_layer_types, windows_of
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder

LLAMA3 = {"rope_theta": 1e6, "factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
          "rope_type": "llama3"}


def read(fields: Fields) -> LlamaConfig:
    """Without layer_types the layers 0, 4, 8, ... are full."""
    fields.assume(vocab_size=128256, hidden_size=6144, intermediate_size=21504, num_hidden_layers=64, num_attention_heads=48,
                  num_key_value_heads=8, head_dim=128, max_position_embeddings=131072, rms_norm_eps=1e-5, sliding_window=8192)
    if not fields.raw.get("rope_scaling"):
        fields.assume(rope_parameters=LLAMA3)
    cfg = read_decoder(fields)
    windows = windows_of(fields, read_layer_types(fields, cfg.layers, every(4, 0)))
    return replace(cfg, windows=windows, mlp_bias=fields.boolean("mlp_bias", False))


FAMILY = Family("cwm", read, forward, tiny={
    **{name: value for name, value in TINY.items() if name not in ("attention_bias", "rope_theta")}, "model_type": "cwm",
    "architectures": ["CwmForCausalLM"], "head_dim": 32, "sliding_window": 64,
    "rope_parameters": {**LLAMA3, "factor": 4.0, "original_max_position_embeddings": 128}})
