"""Cohere: Llama whose attention and MLP read the same LayerNorm (weight only), with interleaved rotation, optional norms on the heads
of q and k with a weight for each head, and scaled logits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, extended, forward, read_decoder
from hierarchos.nn.attention import normed_rotated, rotated, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import ONES, Weights


@dataclass(frozen=True)
class CohereConfig(LlamaConfig):
    """head_norm: q and k are normed."""

    head_norm: bool = False


def read_cohere(fields: Fields) -> LlamaConfig:
    """What Cohere's families share. attention_bias is on all four projections."""
    fields.assume(vocab_size=256000, hidden_size=8192, intermediate_size=22528, num_hidden_layers=40, num_attention_heads=64,
                  max_position_embeddings=8192, layer_norm_eps=1e-5, tie_word_embeddings=True, logit_scale=0.0625)
    bias = fields.boolean("attention_bias", False)
    cfg = read_decoder(fields, eps="layer_norm_eps", layout="interleaved")
    return replace(cfg, qkv_bias=bias, output_bias=bias, logit_scale=fields.number("logit_scale", 1.0))


def read(fields: Fields) -> CohereConfig:
    """use_qk_norm norms the heads of q and k."""
    fields.assume(rope_theta=500000.0)
    return extended(CohereConfig, read_cohere(fields), head_norm=fields.boolean("use_qk_norm", False))


def norm_by_head(w: Weights, leaf: str, x: Tensor, eps: float) -> Tensor:
    """LayerNorm of each head of x [B,T,H,D], times a weight [H,D]."""
    return F.layer_norm(x, eps=eps) * w.parameter(f"{leaf}.weight", x.shape[2:], ONES, decay=False)


def parallel(layer: Weights, x: Tensor, norm, attention, mlp) -> Tensor:
    """x += attention(norm(x)) + mlp(norm(x)), the same norm."""
    h = norm(layer, "input_layernorm", x)
    return x + attention(h) + mlp(h)


def cohere_forward(cfg: LlamaConfig, w: Weights, batch: Batch, place=rotated) -> Output:
    """Llama with parallel blocks."""
    return forward(cfg, w, batch, attention=partial(self_attention, place=place), norm=partial(Weights.layer_norm, bias=False),
                   block=parallel)


def first_cohere_forward(cfg: CohereConfig, w: Weights, batch: Batch) -> Output:
    """With norms on the heads, where config.json says so."""
    head_norm = partial(normed_rotated, norm=partial(norm_by_head, eps=cfg.norm_eps))
    return cohere_forward(cfg, w, batch, place=head_norm if cfg.head_norm else rotated)


COHERE_TINY = {
    **{name: value for name, value in TINY.items() if name not in ("mlp_bias", "rms_norm_eps")}, "layer_norm_eps": 1e-5,
    "logit_scale": 0.25}

FAMILY = Family("cohere", read, first_cohere_forward, tiny={
    **COHERE_TINY, "model_type": "cohere", "architectures": ["CohereForCausalLM"], "use_qk_norm": True, "rope_theta": 500000.0})
