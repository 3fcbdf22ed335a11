"""CTRL: sinusoidal positions added to embeddings times sqrt(width), LayerNorm before each block, plain MLP of ReLU, biases, and a tied
head with a bias."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import language_model
from hierarchos.models.sizes import Sizes
from hierarchos.nn.attention import Heads, attend, split_heads
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import plain_mlp
from hierarchos.nn.positions import sine_table
from hierarchos.nn.weights import Weights

LAYER_EPS = 1e-6     # not a field; the final norm has one


@dataclass(frozen=True)
class CTRLConfig(Sizes):
    """Explicit values; dropouts are probabilities."""

    inner: int
    norm_eps: float
    embedding_dropout: float
    residual_dropout: float


def read(fields: Fields) -> CTRLConfig:
    """Each size under its own name or the common one. attn_pdrop stands in released files, and the reference does not read it."""
    fields.spelled(n_embd="hidden_size", n_positions="max_position_embeddings", n_head="num_attention_heads", n_layer="num_hidden_layers")
    fields.harmless("n_ctx", "attn_pdrop", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
                    "summary_first_dropout", "from_tf")
    width, count = fields.integer("n_embd", 1280), fields.integer("n_head", 16)
    if width % count:
        raise fields.refuse("n_embd", f"a multiple of n_head = {count}")
    return CTRLConfig(
        vocab_size=fields.integer("vocab_size", 246534), max_positions=fields.integer("n_positions", 256), width=width,
        inner=fields.integer("dff", 8192), layers=fields.integer("n_layer", 48), heads=Heads(count, count, width // count),
        initializer_range=fields.number("initializer_range", 0.02), norm_eps=fields.number("layer_norm_epsilon", 1e-6),
        tied=fields.boolean("tie_word_embeddings", True), embedding_dropout=fields.number("embd_pdrop", 0.1, below=1.0),
        residual_dropout=fields.number("resid_pdrop", 0.1, below=1.0))


def positions(cfg: CTRLConfig, batch: Batch) -> Tensor:
    """[sin | cos] of position / 10000^(2i / width): [B,T,width]."""
    import numpy as np

    exponents = np.arange(0, cfg.width, 2, dtype=np.float32) / np.float32(cfg.width)
    rates = np.float32(1) / np.power(10000.0, exponents.astype(np.float64)).astype(np.float32)
    return F.embedding(batch.positions, F.constant(sine_table(np.arange(batch.max_positions, dtype=np.float32)[:, None] * rates)))


def attention(cfg: CTRLConfig, w: Weights, x: Tensor, batch: Batch) -> Tensor:
    """Wq, Wk, Wv, attention, dense."""
    q, k, v = (split_heads(w.linear(name, x, cfg.width, bias=True), cfg.heads.queries, cfg.heads.width) for name in ("Wq", "Wk", "Wv"))
    return dropout(w.linear("dense", attend(w, batch, q, k, v), cfg.width, bias=True), cfg.residual_dropout, batch, w.prefix)


def forward(cfg: CTRLConfig, w: Weights, batch: Batch) -> Output:
    """x += attention(norm(x)); x += mlp(norm(x)); final norm."""
    model = w.at("transformer")
    x = model.embedding("w", batch.ids, cfg.vocab_size, cfg.width) * cfg.width ** 0.5 + positions(cfg, batch)
    x = dropout(x, cfg.embedding_dropout, batch, model.name("w"))
    for index in range(cfg.layers):
        layer = model.at("h", index)
        with region(batch, layer.prefix):
            x = x + attention(cfg, layer.at("multi_head_attention"), layer.layer_norm("layernorm1", x, LAYER_EPS), batch)
            fed = plain_mlp(layer.at("ffn"), layer.layer_norm("layernorm2", x, LAYER_EPS), cfg.inner, "relu", bias=True, names=("0", "2"))
            x = x + dropout(fed, cfg.residual_dropout, batch, layer.name("ffn"))
    hidden = model.layer_norm("layernorm", x, cfg.norm_eps)
    return language_model(cfg.tied, "transformer.w", w, hidden, cfg.vocab_size, bias=True)


FAMILY = Family("ctrl", read, forward, base="transformer", embedding="transformer.w.weight", tiny={
    "model_type": "ctrl", "architectures": ["CTRLLMHeadModel"], "vocab_size": 2048, "n_positions": 512, "n_embd": 128, "dff": 512,
    "n_layer": 4, "n_head": 4, "layer_norm_epsilon": 1e-6, "initializer_range": 0.02, "resid_pdrop": 0.0, "embd_pdrop": 0.0})
