"""Ministral: Mistral with the window on the layers that layer_types names."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.layers import read_layer_types, windows_of
from hierarchos.models.llama import LlamaConfig, forward, read_decoder
from hierarchos.models.mistral import MISTRAL_TINY


def read(fields: Fields) -> LlamaConfig:
    """Without layer_types all layers slide, or none where sliding_window is null."""
    fields.assume(intermediate_size=14336, num_key_value_heads=8, max_position_embeddings=131072, sliding_window=4096)
    cfg = read_decoder(fields)
    slides = fields.any("sliding_window") is not None
    return replace(cfg, windows=windows_of(fields, read_layer_types(fields, cfg.layers, lambda index: not slides)))


FAMILY = Family("ministral", read, forward, tiny={
    **MISTRAL_TINY, "model_type": "ministral", "architectures": ["MinistralForCausalLM"],
    "layer_types": ["sliding_attention", "full_attention"] * 2})
