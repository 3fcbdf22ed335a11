"""OLMo: Llama with LayerNorms that have no parameters, and bounds on q, k and v."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, extended, forward, read_decoder
from hierarchos.nn.attention import Heads, self_attention, separate
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights

NORM_EPS = 1e-5     # not a field


@dataclass(frozen=True)
class OlmoConfig(LlamaConfig):
    """clip: largest absolute value in q, k and v."""

    clip: float | None = None


def read(fields: Fields) -> OlmoConfig:
    """attention_bias is on all four projections."""
    fields.assume(vocab_size=50304)
    cfg, bias = read_decoder(fields, eps=NORM_EPS), fields.boolean("attention_bias", False)
    return extended(OlmoConfig, cfg, qkv_bias=bias, output_bias=bias, clip=fields.number("clip_qkv", None))


def clipped(w: Weights, x: Tensor, heads: Heads, bias: bool, clip: float | None) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v within -clip .. clip."""
    parts = separate(w, x, heads, bias)
    return parts if clip is None else tuple(F.clamp(part, clip) for part in parts)


def parameterless(w: Weights, leaf: str, x: Tensor, eps: float) -> Tensor:
    """LayerNorm without weight and bias."""
    return F.layer_norm(x, eps=eps)


def olmo_forward(cfg: OlmoConfig, w: Weights, batch: Batch) -> Output:
    """Llama with parameterless norms."""
    return forward(cfg, w, batch, norm=parameterless, attention=partial(self_attention, project=partial(clipped, clip=cfg.clip)))


FAMILY = Family("olmo", read, olmo_forward, tiny={
    **{name: value for name, value in TINY.items() if name not in ("mlp_bias", "rms_norm_eps")},
    "model_type": "olmo", "architectures": ["OlmoForCausalLM"]})
