"""Phi: Llama whose attention and MLP read the same LayerNorm, with half of each head rotated, a plain MLP, and biases on everything."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.models.cohere import parallel
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, extended, forward, read_decoder
from hierarchos.nn.attention import normed_rotated, rotated, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import plain_mlp
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class PhiConfig(LlamaConfig):
    """head_norms: a LayerNorm on each query and key head."""

    head_norms: bool = False


def read(fields: Fields) -> PhiConfig:
    """Biases are no option here."""
    fields.assume(vocab_size=51200, hidden_size=2048, intermediate_size=8192, num_hidden_layers=24, hidden_act="gelu_new",
                  layer_norm_eps=1e-5, partial_rotary_factor=0.5)
    return extended(PhiConfig, read_decoder(fields, eps="layer_norm_eps"), qkv_bias=True, output_bias=True, mlp_bias=True,
                    residual_dropout=fields.number("resid_pdrop", 0.0, below=1.0),
                    embedding_dropout=fields.number("embd_pdrop", 0.0, below=1.0), head_norms=fields.boolean("qk_layernorm", False))


def phi_forward(cfg: PhiConfig, w: Weights, batch: Batch) -> Output:
    """Llama with one LayerNorm a block."""
    norm_heads = partial(normed_rotated, norm=partial(Weights.layer_norm, eps=cfg.norm_eps), names=("q_layernorm", "k_layernorm"))
    attention = partial(self_attention, place=norm_heads if cfg.head_norms else rotated, output="dense")
    return forward(cfg, w, batch, attention=attention, mlp=partial(plain_mlp, names=("fc1", "fc2")), norm=Weights.layer_norm,
                   block=parallel, final_norm="final_layernorm", head_bias=True)


FAMILY = Family("phi", read, phi_forward, tiny={
    **{name: value for name, value in TINY.items() if name not in ("attention_bias", "mlp_bias", "rms_norm_eps")}, "model_type": "phi",
    "architectures": ["PhiForCausalLM"], "intermediate_size": 512, "hidden_act": "gelu_new", "layer_norm_eps": 1e-5,
    "partial_rotary_factor": 0.5, "tie_word_embeddings": False, "qk_layernorm": False, "resid_pdrop": 0.0, "embd_pdrop": 0.0})
