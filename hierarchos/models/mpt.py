"""MPT: ALiBi on the scores in place of positions, LayerNorms without biases, q, k, v in one projection as three blocks that may be
bounded, plain MLP of four widths, no biases."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import language_model
from hierarchos.models.sizes import Sizes
from hierarchos.nn.attention import Heads, fused_in_blocks, self_attention, unrotated
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import plain_mlp
from hierarchos.nn.positions import alibi_slopes
from hierarchos.nn.weights import Weights

BIAS_MAX = 8


@dataclass(frozen=True)
class MptConfig(Sizes):
    """Explicit values. clip: largest absolute value in q, k and v; scale: of the scores; dropout: one probability for all places."""

    norm_eps: float
    clip: float | None
    scale: float
    dropout: float


def read(fields: Fields) -> MptConfig:
    """The reference reads neither of emb_pdrop, resid_pdrop, learned_pos_emb and norm_type."""
    fields.spelled(d_model="hidden_size", n_heads="num_attention_heads", n_layers="num_hidden_layers",
                   max_seq_len="max_position_embeddings")
    fields.harmless("emb_pdrop", "resid_pdrop", "learned_pos_emb", "norm_type", "init_device", "init_config", "verbose")
    for name, value in (("expansion_ratio", 4), ("no_bias", True), ("embedding_fraction", 1.0), ("logit_scale", None)):
        fields.only(name, None, value)
    width, count = fields.integer("d_model", 2048), fields.integer("n_heads", 16)
    if width % count:
        raise fields.refuse("d_model", f"a multiple of n_heads = {count}")
    attention = Fields(fields.mapping("attn_config") or {}, "mpt", f"{fields.where}: attn_config", fields.ignore)
    cfg = MptConfig(
        vocab_size=fields.integer("vocab_size", 50368), max_positions=fields.integer("max_seq_len", 2048), width=width,
        layers=fields.integer("n_layers", 24), heads=Heads(count, count, width // count),
        initializer_range=fields.number("initializer_range", 0.02), norm_eps=fields.number("layer_norm_epsilon", 1e-5),
        tied=fields.boolean("tie_word_embeddings", True), clip=attention.number("clip_qkv", None) or None,
        scale=attention.number("softmax_scale", (width // count) ** -0.5), dropout=attention.number("attn_pdrop", 0.0, below=1.0))
    check_attention(attention)
    return cfg


def check_attention(fields: Fields) -> None:
    """attn_config says what else MPT could be; one of each is implemented, here as in the reference."""
    for name, value in (("attn_type", "multihead_attention"), ("prefix_lm", False), ("qk_ln", False), ("attn_uses_sequence_id", False),
                        ("alibi", True), ("alibi_bias_max", BIAS_MAX)):
        fields.only(name, None, value)
    fields.harmless("attn_impl")
    fields.finish()


def clipped(w: Weights, x: Tensor, heads: Heads, bias: bool, clip: float | None) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v within -clip .. clip."""
    parts = fused_in_blocks(w, x, heads, bias, name="Wqkv")
    return parts if clip is None else tuple(F.clamp(part, clip) for part in parts)


def forward(cfg: MptConfig, w: Weights, batch: Batch) -> Output:
    """x += attention(norm(x)); x += mlp(norm(x)); final norm."""
    import numpy as np

    model, slopes = w.at("transformer"), F.constant(alibi_slopes(cfg.heads.queries).astype(np.float32))
    norm, project = partial(Weights.layer_norm, eps=cfg.norm_eps, bias=False), partial(clipped, clip=cfg.clip)
    x = model.embedding("wte", batch.ids, cfg.vocab_size, cfg.width)
    for index in range(cfg.layers):
        layer = model.at("blocks", index)
        with region(batch, layer.prefix):
            mixed = self_attention(layer.at("attn"), norm(layer, "norm_1", x), batch, cfg.heads, unrotated, project=project,
                                   output="out_proj", slopes=slopes, scale=cfg.scale, dropout=cfg.dropout)
            x = x + dropout(mixed, cfg.dropout, batch, layer.name("attn"))
            fed = plain_mlp(layer.at("ffn"), norm(layer, "norm_2", x), 4 * cfg.width, "gelu")
            x = x + dropout(fed, cfg.dropout, batch, layer.name("ffn"))
    return language_model(cfg.tied, "transformer.wte", w, norm(model, "norm_f", x), cfg.vocab_size)


FAMILY = Family("mpt", read, forward, base="transformer", embedding="transformer.wte.weight", tiny={
    "model_type": "mpt", "architectures": ["MptForCausalLM"], "vocab_size": 2048, "d_model": 128, "n_heads": 4, "n_layers": 4,
    "max_seq_len": 512, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "attn_config": {"alibi": True, "attn_pdrop": 0.0}})
