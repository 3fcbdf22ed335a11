"""Granite: Llama with constant factors on embedding, attention scores, what each sublayer gives, and logits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, extended, forward, pre_norm, read_decoder
from hierarchos.nn.attention import self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class GraniteConfig(LlamaConfig):
    """`score_scale` is in place of head width^-0.5."""

    embedding_factor: float = 1.0
    residual_factor: float = 1.0
    score_scale: float = 1.0


def read(fields: Fields) -> GraniteConfig:
    """logits_scaling divides."""
    cfg = read_scaled(fields)
    return replace(cfg, logit_scale=1 / fields.number("logits_scaling", 1.0))


def read_scaled(fields: Fields) -> GraniteConfig:
    """All but logits_scaling."""
    cfg, bias = read_decoder(fields), fields.boolean("attention_bias", False)
    return extended(GraniteConfig, cfg, qkv_bias=bias, output_bias=bias, mlp_bias=fields.boolean("mlp_bias", False),
                    embedding_factor=fields.number("embedding_multiplier", 1.0),
                    residual_factor=fields.number("residual_multiplier", 1.0),
                    score_scale=fields.number("attention_multiplier", 1.0))


def granite_forward(cfg: GraniteConfig, w: Weights, batch: Batch, finish=lambda layer, norm, name, y: y) -> Output:
    """Llama with the factors. finish(layer, norm, name, y): on what the sublayer `name` gives, before its factor."""
    def scaled(layer: Weights, x: Tensor, norm, attention, mlp) -> Tensor:
        return pre_norm(layer, x, norm, lambda h: finish(layer, norm, "attention", attention(h)) * cfg.residual_factor,
                        lambda h: finish(layer, norm, "mlp", mlp(h)) * cfg.residual_factor)

    return forward(cfg, w, batch, attention=partial(self_attention, scale=cfg.score_scale), block=scaled,
                   entrance=lambda x: x * cfg.embedding_factor)


GRANITE_TINY = {**TINY, "embedding_multiplier": 12.0, "logits_scaling": 8.0, "residual_multiplier": 0.22, "attention_multiplier": 0.03125}
FAMILY = Family("granite", read, granite_forward, tiny={
    **GRANITE_TINY, "model_type": "granite", "architectures": ["GraniteForCausalLM"]})
