"""Gemma 3: Gemma 2 with a norm on each query and key head in place of soft caps, five sliding layers to one full, and a rope for each
kind of layer."""

from __future__ import annotations

from functools import partial

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.gemma2 import GEMMA2_TINY, Gemma2Config, sandwich
from hierarchos.models.layers import every, read_layer_types, windows_of
from hierarchos.models.llama import extended, forward, read_decoder
from hierarchos.models.rope_config import read_ropes
from hierarchos.nn.attention import normed_rotated, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> Gemma2Config:
    """Older files have rope_theta and rope_scaling for full layers, rope_local_base_freq for sliding ones."""
    fields.assume(vocab_size=262208, hidden_size=2304, intermediate_size=9216, num_hidden_layers=26, num_attention_heads=8,
                  num_key_value_heads=4, head_dim=256, hidden_activation="gelu_pytorch_tanh", max_position_embeddings=131072,
                  tie_word_embeddings=True, sliding_window=4096)
    fields.harmless("hidden_act", "cache_implementation")
    fields.only("use_bidirectional_attention", None, False)
    cfg, bias = read_decoder(fields, activation="hidden_activation", rope=None), fields.boolean("attention_bias", False)
    types = read_layer_types(fields, cfg.layers, every(fields.integer("sliding_window_pattern", 6)))
    theta = {"full_attention": fields.number("rope_theta", 1e6), "sliding_attention": fields.number("rope_local_base_freq", 1e4)}
    ropes = read_ropes(fields, set(types), cfg.heads.width, cfg.max_positions, theta)
    return extended(Gemma2Config, cfg, qkv_bias=bias, output_bias=bias, windows=windows_of(fields, types),
                    ropes=tuple(ropes[kind] for kind in types), score_scale=fields.number("query_pre_attn_scalar", 256) ** -0.5,
                    logit_softcap=fields.number("final_logit_softcapping", None))


def gemma3_forward(cfg: Gemma2Config, w: Weights, batch: Batch) -> Output:
    """Gemma 2's blocks with normed heads."""
    norm = partial(Weights.rms_norm, offset=1.0)
    place = partial(normed_rotated, norm=partial(norm, eps=cfg.norm_eps))
    return forward(cfg, w, batch, attention=partial(self_attention, place=place, scale=cfg.score_scale), norm=norm, block=sandwich,
                   entrance=lambda x: x * cfg.width ** 0.5)


FAMILY = Family("gemma3_text", read, gemma3_forward, tiny={
    **{name: value for name, value in GEMMA2_TINY.items() if not name.endswith("softcapping") and name != "rope_theta"},
    "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "layer_types": ["sliding_attention", "full_attention"] * 2,
    "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})
