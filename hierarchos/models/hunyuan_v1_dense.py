"""Hunyuan V1 dense: Llama with a norm on each query and key head after the rotation, and a rope base stretched by alpha."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder
from hierarchos.models.rope_config import read_rope
from hierarchos.nn.attention import rotated_normed, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> LlamaConfig:
    """rope_type "dynamic" with an alpha does not depend on the length."""
    fields.assume(vocab_size=290943, rms_norm_eps=1e-5)
    fields.harmless("eod_token_id", "im_start_id", "im_end_id", "im_newline_id", "text_start_id", "text_end_id", "org_vocab_size")
    cfg, bias = read_decoder(fields, rope=partial(read_rope, alpha=True)), fields.boolean("attention_bias", False)
    return replace(cfg, qkv_bias=bias, output_bias=bias)


def hunyuan_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with heads normed after their rotation."""
    norm = partial(Weights.rms_norm, eps=cfg.norm_eps)
    place = partial(rotated_normed, norm=norm, names=("query_layernorm", "key_layernorm"))
    return forward(cfg, w, batch, attention=partial(self_attention, place=place))


FAMILY = Family("hunyuan_v1_dense", read, hunyuan_forward, tiny={
    **{name: value for name, value in TINY.items() if name not in ("mlp_bias", "rope_theta")}, "model_type": "hunyuan_v1_dense",
    "architectures": ["HunYuanDenseV1ForCausalLM"], "head_dim": 32,
    "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 1.0, "alpha": 1000.0}})
