"""Apertus: Llama with an RMSNorm on each query and key head before the rotation, and a plain MLP of xIELU, whose slopes are learned."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder
from hierarchos.nn.attention import normed_rotated, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import ACTIVATIONS, activate
from hierarchos.nn.weights import Constant, Weights

BETA, NEAREST = 0.5, -1e-6       # buffers of the reference: slope at 0, and the largest argument of its expm1
LLAMA3 = {"rope_type": "llama3", "rope_theta": 12000000.0, "factor": 8.0, "original_max_position_embeddings": 8192,
          "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def read(fields: Fields) -> LlamaConfig:
    """attention_bias is on all four projections."""
    fields.assume(vocab_size=131072, intermediate_size=14336, max_position_embeddings=65536, rms_norm_eps=1e-5, hidden_act="xielu",
                  rope_theta=LLAMA3["rope_theta"], rope_parameters=LLAMA3)
    bias = fields.boolean("attention_bias", False)
    return replace(read_decoder(fields, activations=(*ACTIVATIONS, "xielu")), qkv_bias=bias, output_bias=bias)


def xielu(w: Weights, x: Tensor) -> Tensor:
    """p x^2 + x/2 above 0, n (exp(x) - 1 - x) + x/2 below; p = softplus(alpha_p), n = 1/2 + softplus(alpha_n)."""
    p = F.softplus(w.parameter("alpha_p", (1,), Constant(math.log(math.expm1(0.8)))))
    n = F.softplus(w.parameter("alpha_n", (1,), Constant(math.log(math.expm1(0.8 - BETA))))) + BETA
    below = F.minimum(x, NEAREST)
    return F.where(F.gt(x, 0.0), p * x * x, n * (curve(below) + (below - x))) + BETA * x


def curve(x: Tensor) -> Tensor:
    """exp(x) - 1 - x = 2 (t - x/2) + 2 t^2 / (1 - t), t = tanh(x / 2): only t's own rounding is as large as that of x."""
    half = 0.5 * x
    t = F.tanh(half)
    return 2.0 * ((t - half) + t * t / (1.0 - t))


def xielu_mlp(w: Weights, x: Tensor, inner: int, activation: str, bias: bool) -> Tensor:
    """down(xielu(up(x))), or another activation that config.json names."""
    h = w.linear("up_proj", x, inner, bias)
    return w.linear("down_proj", xielu(w.at("act_fn"), h) if activation == "xielu" else activate(activation, h), x.shape[-1], bias)


def block(layer: Weights, x: Tensor, norm, attention, mlp) -> Tensor:
    """x += attention(norm(x)); x += mlp(norm(x))."""
    x = x + attention(norm(layer, "attention_layernorm", x))
    return x + mlp(norm(layer, "feedforward_layernorm", x))


def apertus_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with normed heads and xIELU."""
    place = partial(normed_rotated, norm=partial(Weights.rms_norm, eps=cfg.norm_eps))
    return forward(cfg, w, batch, attention=partial(self_attention, place=place), mlp=xielu_mlp, block=block)


def constants(cfg: LlamaConfig) -> dict[str, float]:
    """Buffers of each layer's activation, which packages hold."""
    layers = range(cfg.layers if cfg.activation == "xielu" else 0)
    return {f"model.layers.{index}.mlp.act_fn.{name}": value for index in layers for name, value in (("beta", BETA), ("eps", NEAREST))}


FAMILY = Family("apertus", read, apertus_forward, constants=constants, buffers=(r"rotary_emb\.inv_freq$", r"act_fn\.(beta|eps)$"), tiny={
    **{name: value for name, value in TINY.items() if name not in ("mlp_bias", "rope_theta")},
    "model_type": "apertus", "architectures": ["ApertusForCausalLM"], "hidden_act": "xielu", "intermediate_size": 512})
