"""StableLM: Llama with LayerNorms, a quarter of each head rotated; optionally one norm for both sublayers, and a norm for each head."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.cohere import parallel
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, extended, forward, pre_norm, read_decoder
from hierarchos.nn.attention import normed_rotated, rotated, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import gated_mlp
from hierarchos.nn.weights import ONES, Weights


@dataclass(frozen=True)
class StableLmConfig(LlamaConfig):
    """parallel: attention and MLP read the same norm. head_norms: a LayerNorm with weights of its own for each head of q and k."""

    parallel: bool = False
    head_norms: bool = False
    mlp_dropout: float = 0.0


def read(fields: Fields) -> StableLmConfig:
    """The head's width is always hidden_size / num_attention_heads."""
    fields.assume(vocab_size=50304, hidden_size=2560, intermediate_size=6912, max_position_embeddings=4096, layer_norm_eps=1e-5,
                  partial_rotary_factor=0.25)
    cfg = read_decoder(fields, eps="layer_norm_eps")
    return extended(StableLmConfig, cfg, qkv_bias=fields.boolean("use_qkv_bias", False),
                    mlp_dropout=fields.number("hidden_dropout", 0.0, below=1.0),
                    parallel=fields.boolean("use_parallel_residual", False), head_norms=fields.boolean("qk_layernorm", False))


def norm_each_head(w: Weights, leaf: str, x: Tensor, eps: float) -> Tensor:
    """LayerNorm without bias over each head of x [B,T,H,D]; head h has `leaf.norms.h.weight`."""
    heads, width = x.shape[2:]
    weights = [F.reshape(w.parameter(f"{leaf}.norms.{head}.weight", (width,), ONES), (1, width)) for head in range(heads)]
    return F.layer_norm(x, eps=eps) * F.concat(weights, 0)


def stablelm_forward(cfg: StableLmConfig, w: Weights, batch: Batch) -> Output:
    """Llama with LayerNorms."""
    norm_heads = partial(normed_rotated, norm=partial(norm_each_head, eps=cfg.norm_eps), names=("q_layernorm", "k_layernorm"))

    def mlp(w: Weights, x: Tensor, **options) -> Tensor:
        return dropout(gated_mlp(w, x, **options), cfg.mlp_dropout, batch, w.name("down_proj"))

    return forward(cfg, w, batch, attention=partial(self_attention, place=norm_heads if cfg.head_norms else rotated), mlp=mlp,
                   norm=Weights.layer_norm, block=parallel if cfg.parallel else pre_norm)


FAMILY = Family("stablelm", read, stablelm_forward, tiny={
    **{name: value for name, value in TINY.items() if name not in ("attention_bias", "mlp_bias", "rms_norm_eps")},
    "model_type": "stablelm", "architectures": ["StableLmForCausalLM"], "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25,
    "use_qkv_bias": True, "qk_layernorm": False, "use_parallel_residual": False})
