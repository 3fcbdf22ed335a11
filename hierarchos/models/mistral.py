"""Mistral: Llama with a sliding window on every layer, where sliding_window is set."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder


def read(fields: Fields) -> LlamaConfig:
    """sliding_window: absent means 4096, null means none. layer_types can only repeat it: the reference does not read them here."""
    fields.assume(intermediate_size=14336, num_key_value_heads=8, max_position_embeddings=131072)
    cfg = read_decoder(fields)
    window = fields.integer("sliding_window", None if "sliding_window" in fields.raw else 4096)
    fields.only("layer_types", None, ["sliding_attention" if window else "full_attention"] * cfg.layers)
    return replace(cfg, windows=(window,) * cfg.layers)


MISTRAL_TINY = {**{name: value for name, value in TINY.items() if name not in ("attention_bias", "mlp_bias")}, "sliding_window": 64}
FAMILY = Family("mistral", read, forward, tiny={**MISTRAL_TINY, "model_type": "mistral", "architectures": ["MistralForCausalLM"]})
