"""Qwen3: Llama with an RMSNorm on each query and key head before the rotation, and sliding windows on some layers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.layers import read_windows
from hierarchos.models.llama import LlamaConfig, forward, read_decoder
from hierarchos.models.qwen2 import DEFAULTS, QWEN_TINY
from hierarchos.nn.attention import normed_rotated, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> LlamaConfig:
    """attention_bias puts biases on all four projections."""
    fields.assume(**DEFAULTS, head_dim=128)
    cfg = read_decoder(fields)
    bias = fields.boolean("attention_bias", False)
    return replace(cfg, qkv_bias=bias, output_bias=bias, windows=read_windows(fields, cfg.layers, 4096))


def qwen3_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with normed heads."""
    norm = partial(Weights.rms_norm, eps=cfg.norm_eps)
    return forward(cfg, w, batch, attention=partial(self_attention, place=partial(normed_rotated, norm=norm)))


FAMILY = Family("qwen3", read, qwen3_forward, tiny={
    **QWEN_TINY, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 32, "attention_bias": False})
