"""Gemma: Llama with RMSNorm weights that are offsets from one, embeddings times sqrt(width), gated tanh-GELU; causal or, for embedding
texts, bidirectional."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, extended, forward, read_decoder
from hierarchos.nn.attention import self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class GemmaConfig(LlamaConfig):
    """causal: a token sees earlier ones only."""

    causal: bool = True


def read(fields: Fields) -> GemmaConfig:
    """The first releases say "gelu" and mean its tanh form."""
    fields.assume(vocab_size=256000, hidden_size=3072, intermediate_size=24576, num_hidden_layers=28, num_attention_heads=16,
                  num_key_value_heads=16, head_dim=256, hidden_act="gelu_pytorch_tanh", max_position_embeddings=8192,
                  tie_word_embeddings=True)
    fields.only("hidden_activation", None, "gelu_pytorch_tanh")
    cfg, bias = read_decoder(fields), fields.boolean("attention_bias", False)
    return extended(GemmaConfig, cfg, qkv_bias=bias, output_bias=bias, causal=not fields.boolean("use_bidirectional_attention", False),
                    activation="gelu_pytorch_tanh" if cfg.activation == "gelu" else cfg.activation)


def gemma_forward(cfg: GemmaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with Gemma's norms and embedding."""
    return forward(cfg, w, batch, attention=partial(self_attention, causal=cfg.causal), norm=partial(Weights.rms_norm, offset=1.0),
                   entrance=lambda x: x * cfg.width ** 0.5)


FAMILY = Family("gemma", read, gemma_forward, tiny={
    **{name: value for name, value in TINY.items() if name != "mlp_bias"}, "model_type": "gemma", "architectures": ["GemmaForCausalLM"],
    "head_dim": 32, "hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6})
