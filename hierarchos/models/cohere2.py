"""Cohere 2: Cohere with windows on three of four layers; only those rotate, positions do not enter the others."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.cohere import COHERE_TINY, cohere_forward, read_cohere
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.layers import every, read_layer_types, windows_of
from hierarchos.models.llama import LlamaConfig


def read(fields: Fields) -> LlamaConfig:
    """Released files name further properties, which all have the one value that there is."""
    described = {"position_embedding_type": "rope_gptj", "rotary_pct": 1.0, "use_gated_activation": True, "use_parallel_block": True,
                 "use_embedding_sharing": True, "order_of_interleaved_layers": "local_attn_first"}
    for name, value in described.items():
        fields.only(name, None, value)
    fields.harmless("use_parallel_embedding", "layer_switch", "cache_implementation")
    fields.assume(sliding_window=4096)
    cfg = read_cohere(fields)
    windows = windows_of(fields, read_layer_types(fields, cfg.layers, every(fields.integer("sliding_window_pattern", 4))))
    return replace(cfg, windows=windows, ropes=tuple(rope if window else None for rope, window in zip(cfg.ropes, windows, strict=True)))


FAMILY = Family("cohere2", read, cohere_forward, tiny={
    **COHERE_TINY, "model_type": "cohere2", "architectures": ["Cohere2ForCausalLM"], "sliding_window": 64})
