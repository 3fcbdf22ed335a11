"""Cohere Compass: Cohere's parallel blocks with halves rotated, and for each kind of layer a window and a rope, or none."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.cohere import COHERE_TINY, cohere_forward
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.layers import read_layer_types, windows_of
from hierarchos.models.llama import LlamaConfig, read_decoder
from hierarchos.models.rope_config import read_ropes


def read(fields: Fields) -> LlamaConfig:
    """rope_parameters names every kind of layer that there is; null means no rotation there. pooling is for embedding texts."""
    fields.assume(vocab_size=256000, hidden_size=8192, intermediate_size=22528, num_hidden_layers=40, num_attention_heads=64,
                  max_position_embeddings=8192, layer_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=4096)
    fields.harmless("pooling")
    cfg, bias = read_decoder(fields, eps="layer_norm_eps", rope=None), fields.boolean("attention_bias", False)
    types = read_layer_types(fields, cfg.layers)
    kinds, given = sorted(set(types)), fields.mapping("rope_parameters") or {}
    if set(kinds) - set(given):
        raise fields.refuse("rope_parameters", "an object or null for each of " + ", ".join(kinds))
    ropes = read_ropes(fields, kinds, cfg.heads.width, cfg.max_positions, dict.fromkeys(("full_attention", "sliding_attention"), 1e4))
    return replace(cfg, qkv_bias=bias, output_bias=bias, logit_scale=fields.number("logit_scale", 1.0),
                   ropes=tuple(ropes[kind] for kind in types), windows=windows_of(fields, types))


FAMILY = Family("cohere_compass_text", read, cohere_forward, tiny={
    **{name: value for name, value in COHERE_TINY.items() if name != "rope_theta"}, "model_type": "cohere_compass_text",
    "architectures": ["CohereCompassForCausalLM"], "sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"] * 2,
    "rope_parameters": {"full_attention": None, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}})
