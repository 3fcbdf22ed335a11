"""Gemma 2: Llama with RMSNorm weights that are offsets from one, a second norm on what attention and MLP give, embeddings times
sqrt(width), a score scale of its own, soft caps on scores and logits, and windows on every other layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.layers import every, read_layer_types, windows_of
from hierarchos.models.llama import TINY, LlamaConfig, extended, forward, read_decoder
from hierarchos.nn.attention import self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class Gemma2Config(LlamaConfig):
    """score_scale and score_softcap: of the attention."""

    score_scale: float = 1.0
    score_softcap: float | None = None


def read(fields: Fields) -> Gemma2Config:
    """hidden_act and cache_implementation stand in released files, and nothing reads them."""
    fields.assume(vocab_size=256000, hidden_size=2304, intermediate_size=9216, num_hidden_layers=26, num_attention_heads=8,
                  num_key_value_heads=4, head_dim=256, hidden_activation="gelu_pytorch_tanh", max_position_embeddings=8192,
                  tie_word_embeddings=True, sliding_window=4096, final_logit_softcapping=30.0, attn_logit_softcapping=50.0)
    fields.harmless("hidden_act", "cache_implementation")
    fields.only("use_bidirectional_attention", None, False)
    cfg, bias = read_decoder(fields, activation="hidden_activation"), fields.boolean("attention_bias", False)
    types = read_layer_types(fields, cfg.layers, every(2))
    return extended(Gemma2Config, cfg, qkv_bias=bias, output_bias=bias, windows=windows_of(fields, types),
                    score_scale=fields.number("query_pre_attn_scalar", 256) ** -0.5,
                    score_softcap=fields.number("attn_logit_softcapping", None),
                    logit_softcap=fields.number("final_logit_softcapping", None))


def sandwich(layer: Weights, x: Tensor, norm, attention, mlp) -> Tensor:
    """x += norm(attention(norm(x))); x += norm(mlp(norm(x)))."""
    x = x + norm(layer, "post_attention_layernorm", attention(norm(layer, "input_layernorm", x)))
    return x + norm(layer, "post_feedforward_layernorm", mlp(norm(layer, "pre_feedforward_layernorm", x)))


def gemma2_forward(cfg: Gemma2Config, w: Weights, batch: Batch, block=sandwich) -> Output:
    """Llama with Gemma's norms and embedding."""
    attention = partial(self_attention, scale=cfg.score_scale, softcap=cfg.score_softcap)
    return forward(cfg, w, batch, attention=attention, norm=partial(Weights.rms_norm, offset=1.0), block=block,
                   entrance=lambda x: x * cfg.width ** 0.5)


GEMMA2_TINY = {
    **{name: value for name, value in TINY.items() if name not in ("mlp_bias", "hidden_act", "rms_norm_eps")}, "rms_norm_eps": 1e-6,
    "hidden_activation": "gelu_pytorch_tanh", "head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 64,
    "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}

FAMILY = Family("gemma2", read, gemma2_forward, tiny={**GEMMA2_TINY, "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]})
