"""Qwen2: Llama with biases on q, k and v, and sliding windows on some layers."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.layers import read_windows
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder

DEFAULTS = {"vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32, "max_position_embeddings": 32768}


def read(fields: Fields) -> LlamaConfig:
    """Biases are not an option here: q, k, v always, o never."""
    fields.assume(**DEFAULTS)
    cfg = read_decoder(fields)
    return replace(cfg, qkv_bias=True, windows=read_windows(fields, cfg.layers, 4096))


QWEN_TINY = {
    **{name: value for name, value in TINY.items() if name not in ("attention_bias", "mlp_bias")},
    "rms_norm_eps": 1e-6, "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28,
}

FAMILY = Family("qwen2", read, forward, tiny={**QWEN_TINY, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]})
