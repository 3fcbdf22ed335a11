"""BLOOM: ALiBi on the scores in place of positions, a LayerNorm on the embedding, q, k, v in one projection ordered by head, plain MLP
of four widths, biases."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph import functions as F
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import language_model
from hierarchos.models.sizes import Sizes
from hierarchos.nn.attention import Heads, fused_by_head, self_attention, unrotated
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import plain_mlp
from hierarchos.nn.positions import alibi_slopes
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class BloomConfig(Sizes):
    """Explicit values; normed_residual: the residual is what the norm gives, not what it reads."""

    norm_eps: float
    normed_residual: bool
    hidden_dropout: float
    attention_dropout: float


def read(fields: Fields) -> BloomConfig:
    """Older files say n_embed; with slow_but_exact false, pretraining_tp changes nothing."""
    fields.spelled(hidden_size="n_embed", n_layer="num_hidden_layers", n_head="num_attention_heads")
    fields.only("slow_but_exact", None, False)
    fields.only("n_inner", None, 4 * fields.integer("hidden_size", 64))
    fields.harmless("pretraining_tp", "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "skip_bias_add",
                    "skip_bias_add_qkv", "offset_alibi")
    width, count = fields.integer("hidden_size", 64), fields.integer("n_head", 8)
    if width % count:
        raise fields.refuse("hidden_size", f"a multiple of n_head = {count}")
    return BloomConfig(
        vocab_size=fields.integer("vocab_size", 250880), max_positions=fields.integer("seq_length", 2048), width=width,
        layers=fields.integer("n_layer", 2), heads=Heads(count, count, width // count),
        initializer_range=fields.number("initializer_range", 0.02), norm_eps=fields.number("layer_norm_epsilon", 1e-5),
        tied=fields.boolean("tie_word_embeddings", True),
        normed_residual=fields.boolean("apply_residual_connection_post_layernorm", False),
        hidden_dropout=fields.number("hidden_dropout", 0.0, below=1.0),
        attention_dropout=fields.number("attention_dropout", 0.0, below=1.0))


def forward(cfg: BloomConfig, w: Weights, batch: Batch) -> Output:
    """x += attention(norm(x)); x += mlp(norm(x)), or the norm in place of x; final norm."""
    import numpy as np

    model, slopes = w.at("transformer"), F.constant(alibi_slopes(cfg.heads.queries).astype(np.float32))
    x = model.embedding("word_embeddings", batch.ids, cfg.vocab_size, cfg.width)
    x = model.layer_norm("word_embeddings_layernorm", x, cfg.norm_eps)
    for index in range(cfg.layers):
        layer = model.at("h", index)
        attn, mlp = layer.at("self_attention"), layer.at("mlp")
        with region(batch, layer.prefix):
            h = layer.layer_norm("input_layernorm", x, cfg.norm_eps)
            mixed = self_attention(attn, h, batch, cfg.heads, unrotated, project=fused_by_head, qkv_bias=True, output_bias=True,
                                   output="dense", slopes=slopes, dropout=cfg.attention_dropout)
            x = (h if cfg.normed_residual else x) + dropout(mixed, cfg.hidden_dropout, batch, attn.prefix)
            h = layer.layer_norm("post_attention_layernorm", x, cfg.norm_eps)
            fed = plain_mlp(mlp, h, 4 * cfg.width, "gelu_pytorch_tanh", bias=True, names=("dense_h_to_4h", "dense_4h_to_h"))
            x = (h if cfg.normed_residual else x) + dropout(fed, cfg.hidden_dropout, batch, mlp.prefix)
    return language_model(cfg.tied, "transformer.word_embeddings", w, model.layer_norm("ln_f", x, cfg.norm_eps), cfg.vocab_size)


FAMILY = Family("bloom", read, forward, base="transformer", embedding="transformer.word_embeddings.weight", tiny={
    "model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 2048, "hidden_size": 128, "n_layer": 4, "n_head": 4,
    "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "hidden_dropout": 0.0, "attention_dropout": 0.0})
