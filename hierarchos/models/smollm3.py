"""SmolLM3: Llama without rotation on every fourth layer."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.layers import every, read_layer_types, windows_of
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder


def read(fields: Fields) -> LlamaConfig:
    """no_rope_layers has 1 where there IS a rotation; with use_sliding_window the layers without one slide."""
    fields.assume(vocab_size=128256, hidden_size=2048, num_hidden_layers=36, num_attention_heads=16, num_key_value_heads=4,
                  max_position_embeddings=32768, rope_theta=2e6, tie_word_embeddings=True)
    cfg, bias = read_decoder(fields), fields.boolean("attention_bias", False)
    bare = every(fields.integer("no_rope_layer_interval", 4))
    rotated = fields.any("no_rope_layers") or [not bare(index) for index in range(cfg.layers)]
    if not isinstance(rotated, list) or len(rotated) != cfg.layers or set(rotated) - {0, 1}:
        raise fields.refuse("no_rope_layers", f"a list of 0 and 1, one for each of the {cfg.layers} layers")
    slides = fields.boolean("use_sliding_window", False) and fields.any("sliding_window") is not None
    types = read_layer_types(fields, cfg.layers, lambda index: not slides or rotated[index])
    fields.harmless("sliding_window")
    return replace(cfg, qkv_bias=bias, output_bias=bias, mlp_bias=fields.boolean("mlp_bias", False),
                   ropes=tuple(rope if turned else None for rope, turned in zip(cfg.ropes, rotated, strict=True)),
                   windows=windows_of(fields, types))


FAMILY = Family("smollm3", read, forward, tiny={
    **TINY, "model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"], "no_rope_layer_interval": 4, "use_sliding_window": False})
