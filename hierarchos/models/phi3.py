"""Phi-3: Llama with q, k, v in one projection, gate and up in another, a window on all layers, longrope."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder
from hierarchos.models.rope_config import read_rope
from hierarchos.nn.attention import fused_in_blocks, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import fused_gated_mlp
from hierarchos.nn.weights import Weights

SPELLINGS = (("su", "longrope"), ("yarn", "longrope"))


def read(fields: Fields) -> LlamaConfig:
    """Older files call longrope "su" or "yarn". The reference has no dropout on the embedding, whatever embd_pdrop says."""
    fields.assume(vocab_size=32064, hidden_size=3072, intermediate_size=8192, max_position_embeddings=4096, rms_norm_eps=1e-5,
                  original_max_position_embeddings=4096)
    fields.harmless("embd_pdrop")
    cfg, window = read_decoder(fields, rope=partial(read_rope, spellings=SPELLINGS)), fields.integer("sliding_window", None)
    return replace(cfg, windows=(window,) * cfg.layers, residual_dropout=fields.number("resid_pdrop", 0.0, below=1.0))


def phi3_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with fused projections."""
    return forward(cfg, w, batch, attention=partial(self_attention, project=fused_in_blocks), mlp=fused_gated_mlp)


FAMILY = Family("phi3", read, phi3_forward, tiny={
    **{name: value for name, value in TINY.items() if name not in ("attention_bias", "mlp_bias")}, "model_type": "phi3",
    "architectures": ["Phi3ForCausalLM"], "original_max_position_embeddings": 512, "resid_pdrop": 0.0, "attention_dropout": 0.0})
