"""Falcon: LayerNorms, q, k, v in one projection ordered by key head, attention and MLP in parallel (one norm or two) or one after the
other, plain MLP; rotation, or ALiBi with slopes rounded to bfloat16 and scaled like the scores.

The reference rounds each ALiBi bias, slope times position, to bfloat16 as well; here it stays exact."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import language_model
from hierarchos.models.rope_config import read_rope
from hierarchos.models.sizes import DenseSizes
from hierarchos.nn.attention import Heads, fused_by_head, rotation, self_attention, unrotated
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import ACTIVATIONS, plain_mlp
from hierarchos.nn.positions import alibi_slopes
from hierarchos.nn.rotary import Rope
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class FalconConfig(DenseSizes):
    """Explicit values. rope None: ALiBi. norms: names of what attention and MLP read; sequential: the MLP comes after the attention."""

    rope: Rope | None
    norms: tuple[str, str]
    sequential: bool
    bias: bool
    attention_dropout: float
    hidden_dropout: float


def read(fields: Fields) -> FalconConfig:
    """Three generations: new_decoder_architecture groups queries; else multi_query shares one key head; else each head has its own."""
    fields.spelled(hidden_size="n_embed")
    fields.only("apply_residual_connection_post_layernorm", None, False)
    width, count = fields.integer("hidden_size", 4544), fields.integer("num_attention_heads", 71)
    if width % count:
        raise fields.refuse("hidden_size", f"a multiple of num_attention_heads = {count}")
    new, norms, sequential = _structure(fields)
    keys, shared = fields.integer("num_kv_heads", count), fields.boolean("multi_query", True)
    keys = keys if new else 1 if shared else count
    if count % keys:
        raise fields.refuse("num_kv_heads", f"a divisor of num_attention_heads = {count}")
    positions, rope = fields.integer("max_position_embeddings", 2048), None
    if fields.boolean("alibi", False):
        fields.harmless("rope_theta", "rope_parameters", "rope_scaling")
    else:
        rope = read_rope(fields, width // count, positions)
    return FalconConfig(
        vocab_size=fields.integer("vocab_size", 65024), width=width, inner=fields.integer("ffn_hidden_size", 4 * width),
        layers=fields.integer("num_hidden_layers", 32), heads=Heads(count, keys, width // count),
        activation=fields.choice("activation", "gelu", ACTIVATIONS), max_positions=positions,
        initializer_range=fields.number("initializer_range", 0.02), norm_eps=fields.number("layer_norm_epsilon", 1e-5),
        tied=fields.boolean("tie_word_embeddings", True), rope=rope, norms=norms, sequential=sequential, bias=fields.boolean("bias", False),
        attention_dropout=fields.number("attention_dropout", 0.0, below=1.0),
        hidden_dropout=fields.number("hidden_dropout", 0.0, below=1.0))


def _structure(fields: Fields) -> tuple[bool, tuple[str, str], bool]:
    """Whether the architecture is the new one, the names of the two norms, and whether the MLP comes after the attention."""
    new, parallel = fields.boolean("new_decoder_architecture", False), fields.boolean("parallel_attn", True)
    norms = fields.integer("num_ln_in_parallel_attn", 2 if new else 1)
    if norms > (2 if new else 1):
        raise fields.refuse("num_ln_in_parallel_attn", "1 or 2 with new_decoder_architecture, else 1")
    if new and not parallel:
        raise fields.refuse("parallel_attn", "true with new_decoder_architecture")
    if not parallel:
        return new, ("input_layernorm", "post_attention_layernorm"), True
    return new, ("ln_attn", "ln_mlp") if norms == 2 else ("input_layernorm", "input_layernorm"), False


def slopes(cfg: FalconConfig) -> Tensor | None:
    """ALiBi slopes [H], where there is no rotation."""
    import numpy as np

    if cfg.rope:
        return None
    bits = alibi_slopes(cfg.heads.queries).astype(np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)       # to bfloat16, ties to even
    return F.constant(rounded * np.float32(cfg.heads.width ** -0.5))


def forward(cfg: FalconConfig, w: Weights, batch: Batch) -> Output:
    """x += attention(norm(x)) + mlp(norm(x)), or the MLP after the attention; final norm. Dropout of probabilities only with ALiBi."""
    model, bias = w.at("transformer"), slopes(cfg)
    x = model.embedding("word_embeddings", batch.ids, cfg.vocab_size, cfg.width)
    rotate = rotation(cfg.rope, batch) if cfg.rope else unrotated
    for index in range(cfg.layers):
        layer = model.at("h", index)
        attn, mlp, (first, second) = layer.at("self_attention"), layer.at("mlp"), cfg.norms
        with region(batch, layer.prefix):
            h = layer.layer_norm(first, x, cfg.norm_eps)
            mixed = self_attention(attn, h, batch, cfg.heads, rotate, project=fused_by_head, output="dense", qkv_bias=cfg.bias,
                                   output_bias=cfg.bias, slopes=bias, dropout=0.0 if cfg.rope else cfg.attention_dropout)
            if cfg.sequential:
                x, mixed = x + dropout(mixed, cfg.attention_dropout, batch, attn.prefix), None
            h = h if first == second else layer.layer_norm(second, x, cfg.norm_eps)
            fed = plain_mlp(mlp, h, cfg.inner, cfg.activation, cfg.bias, ("dense_h_to_4h", "dense_4h_to_h"))
            x = x + dropout(fed if cfg.sequential else fed + mixed, cfg.hidden_dropout, batch, mlp.prefix)
    return language_model(cfg.tied, "transformer.word_embeddings", w, model.layer_norm("ln_f", x, cfg.norm_eps), cfg.vocab_size)


FAMILY = Family("falcon", read, forward, base="transformer", embedding="transformer.word_embeddings.weight", tiny={
    "model_type": "falcon", "architectures": ["FalconForCausalLM"], "vocab_size": 2048, "hidden_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_kv_heads": 2, "new_decoder_architecture": True, "ffn_hidden_size": 512, "activation": "gelu",
    "max_position_embeddings": 512, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "attention_dropout": 0.0, "hidden_dropout": 0.0,
    "bias": False, "alibi": False, "tie_word_embeddings": True})
