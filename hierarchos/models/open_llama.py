"""Open-Llama: Llama with a LayerNorm on the embedding, and without grouped queries.

The definition is that of older Transformers releases (folder deprecated/open_llama); the OpenLLaMA packages are plain `llama`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, extended, forward, read_decoder
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import gated_mlp
from hierarchos.nn.weights import Weights

EMBEDDING_EPS = 1e-5


@dataclass(frozen=True)
class OpenLlamaConfig(LlamaConfig):
    """stable: the norm on the embedding, and its initialisation by its size alone."""

    stable: bool = True
    mlp_dropout: float = 0.0


def read(fields: Fields) -> OpenLlamaConfig:
    """Attention has no dropout in the reference, whatever attention_dropout_prob says, unless it runs in a library of its own."""
    for name in ("attention_bias", "mlp_bias"):
        fields.only(name, False, None)
    fields.assume(vocab_size=100000)
    fields.harmless("use_memory_efficient_attention", "use_memorry_efficient_attention", "attention_dropout_prob")
    cfg, stable = read_decoder(fields), fields.boolean("use_stable_embedding", True)
    shared, width = fields.boolean("shared_input_output_embedding", True), cfg.width
    std = (2 / (cfg.vocab_size + width)) ** 0.5 if stable else None      # Xavier's for a matrix [vocabulary, width]
    return extended(OpenLlamaConfig, cfg, tied=shared or cfg.tied, embedding_std=std, stable=stable,
                    mlp_dropout=fields.number("hidden_dropout_prob", 0.1, below=1.0))


def open_llama_forward(cfg: OpenLlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama on a normed embedding."""
    def mlp(w: Weights, x: Tensor, **options) -> Tensor:
        return dropout(gated_mlp(w, x, **options), cfg.mlp_dropout, batch, w.name("down_proj"))

    entrance = partial(w.at("model").layer_norm, "embed_layer_norm", eps=EMBEDDING_EPS) if cfg.stable else None
    return forward(cfg, w, batch, mlp=mlp, entrance=entrance)


FAMILY = Family("open-llama", read, open_llama_forward, tiny={
    **{name: value for name, value in TINY.items() if name not in ("attention_bias", "mlp_bias", "num_key_value_heads")},
    "model_type": "open-llama", "architectures": ["OpenLlamaForCausalLM"], "use_stable_embedding": True,
    "shared_input_output_embedding": True, "hidden_dropout_prob": 0.0})
