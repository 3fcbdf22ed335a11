"""Persimmon: Llama with LayerNorms, q, k and v in one projection ordered by head, optional norms on q and k, rotation of half of each
head, and a plain MLP of squared ReLU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, extended, forward, read_decoder
from hierarchos.nn.attention import fused_by_head, normed_rotated, rotated, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import plain_mlp
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class PersimmonConfig(LlamaConfig):
    """head_norm: q and k are normed. hidden_dropout: on what the MLP gives."""

    head_norm: bool = True
    hidden_dropout: float = 0.0


def read(fields: Fields) -> PersimmonConfig:
    """Biases are not an option here: all projections have them."""
    fields.assume(vocab_size=262144, intermediate_size=16384, num_hidden_layers=36, num_attention_heads=64, hidden_act="relu2",
                  max_position_embeddings=16384, layer_norm_eps=1e-5, partial_rotary_factor=0.5)
    fields.only("num_key_value_heads", None, fields.any("num_attention_heads"))
    return extended(PersimmonConfig, read_decoder(fields, eps="layer_norm_eps"), qkv_bias=True, output_bias=True, mlp_bias=True,
                    head_norm=fields.boolean("qk_layernorm", True), hidden_dropout=fields.number("hidden_dropout", 0.0, below=1.0))


def persimmon_forward(cfg: PersimmonConfig, w: Weights, batch: Batch) -> Output:
    """Llama with a fused projection."""
    def block(layer: Weights, x: Tensor, norm, attention, mlp) -> Tensor:
        x = x + attention(norm(layer, "input_layernorm", x))
        fed = mlp(norm(layer, "post_attention_layernorm", x))
        return x + dropout(fed, cfg.hidden_dropout, batch, layer.name("mlp"))

    head_norm = partial(normed_rotated, norm=partial(Weights.layer_norm, eps=cfg.norm_eps), names=("q_layernorm", "k_layernorm"))
    attention = partial(self_attention, project=fused_by_head, place=head_norm if cfg.head_norm else rotated, output="dense")
    return forward(cfg, w, batch, attention=attention, mlp=partial(plain_mlp, names=("dense_h_to_4h", "dense_4h_to_h")),
                   norm=Weights.layer_norm, block=block, final_norm="final_layernorm")


FAMILY = Family("persimmon", read, persimmon_forward, tiny={
    **{name: value for name, value in TINY.items() if name not in ("attention_bias", "mlp_bias", "rms_norm_eps", "num_key_value_heads")},
    "model_type": "persimmon", "architectures": ["PersimmonForCausalLM"], "hidden_act": "relu2", "intermediate_size": 512,
    "layer_norm_eps": 1e-5, "qk_layernorm": True})
