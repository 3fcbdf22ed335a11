"""nanochat: Llama with norms that have no weights, one on the embedding too, q and k normed after a rotation the other way, a plain MLP
of squared ReLU, and a soft cap on the logits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder
from hierarchos.nn.attention import rotated_normed, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import plain_mlp
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> LlamaConfig:
    """attention_bias is on all four projections."""
    fields.assume(vocab_size=50304, hidden_size=768, intermediate_size=8192, num_hidden_layers=12, num_attention_heads=6,
                  hidden_act="relu2", final_logit_softcapping=15.0)
    cfg, bias = read_decoder(fields), fields.boolean("attention_bias", False)
    return replace(cfg, ropes=tuple(replace(rope, sign=-1) for rope in cfg.ropes), qkv_bias=bias, output_bias=bias,
                   logit_softcap=fields.number("final_logit_softcapping", None))


def weightless(w: Weights, leaf: str, x: Tensor, eps: float) -> Tensor:
    """RMSNorm without a weight."""
    return F.rms_norm(x, eps=eps)


def nanochat_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with weightless norms."""
    norm = partial(weightless, eps=cfg.norm_eps)
    spread = cfg.initializer_range / (2 * cfg.layers) ** 0.5
    attention = partial(self_attention, place=partial(rotated_normed, norm=norm), output_std=spread)
    return forward(cfg, w, batch, norm=weightless, entrance=partial(norm, w, "embed_tokens"), mlp=partial(plain_mlp, names=("fc1", "fc2")),
                   attention=attention)


FAMILY = Family("nanochat", read, nanochat_forward, tiny={
    **{name: value for name, value in TINY.items() if name != "mlp_bias"}, "model_type": "nanochat",
    "architectures": ["NanoChatForCausalLM"], "hidden_act": "relu2", "intermediate_size": 512, "final_logit_softcapping": 15.0})
