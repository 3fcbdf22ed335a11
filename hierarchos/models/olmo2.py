"""OLMo 2: Llama whose norms are on what attention and MLP give, and on all of the queries and all of the keys of a token."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder
from hierarchos.nn.attention import normed_rotated, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


def read(fields: Fields, **options) -> LlamaConfig:
    """attention_bias puts biases on all four projections. options: of `read_decoder`."""
    fields.assume(vocab_size=50304, rms_norm_eps=1e-5)
    cfg, bias = read_decoder(fields, **options), fields.boolean("attention_bias", False)
    return replace(cfg, qkv_bias=bias, output_bias=bias)


def post_norm(layer: Weights, x: Tensor, norm, attention, mlp) -> Tensor:
    """x += norm(attention(x)); x += norm(mlp(x))."""
    x = x + norm(layer, "post_attention_layernorm", attention(x))
    return x + norm(layer, "post_feedforward_layernorm", mlp(x))


def norm_all_heads(w: Weights, leaf: str, x: Tensor, eps: float) -> Tensor:
    """RMSNorm over all heads of a token together, x [B,T,H,D] with a weight [H*D]."""
    rows, length, heads, width = x.shape
    return F.reshape(w.rms_norm(leaf, F.reshape(x, (rows, length, heads * width)), eps), x.shape)


def olmo2_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with its norms behind the sublayers."""
    place = partial(normed_rotated, norm=partial(norm_all_heads, eps=cfg.norm_eps))
    return forward(cfg, w, batch, attention=partial(self_attention, place=place), block=post_norm)


OLMO_TINY = {name: value for name, value in TINY.items() if name != "mlp_bias"}
FAMILY = Family("olmo2", read, olmo2_forward, tiny={**OLMO_TINY, "model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"]})
