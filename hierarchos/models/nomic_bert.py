"""Nomic BERT: BERT with rotary positions in place of the table, a gated MLP, no biases in its layers, and layers under Llama's names."""

from __future__ import annotations

from hierarchos.graph.tensor import Tensor
from hierarchos.models.bert import TINY, encoder_family, masked_head
from hierarchos.models.config import Fields
from hierarchos.models.jina_embeddings_v3 import RotaryBertConfig, read_rotary, rotary_body
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import gated_mlp
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> RotaryBertConfig:
    """Heads of another width than hidden_size / num_attention_heads are not implemented."""
    fields.assume(vocab_size=30528, hidden_act="silu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                  max_position_embeddings=2048)
    cfg = read_rotary(fields, 1000.0, bias=False)
    fields.only("head_dim", None, cfg.heads.width)
    return cfg


def mlp(cfg: RotaryBertConfig, layer: Weights, x: Tensor, batch: Batch) -> Tensor:
    """down(activation(gate(x)) * up(x)), with dropout behind it."""
    part = layer.at("mlp")
    return dropout(gated_mlp(part, x, cfg.inner, cfg.activation), cfg.dropout, batch, part.prefix)


def forward(cfg: RotaryBertConfig, w: Weights, batch: Batch) -> Output:
    """Embeddings, blocks, head."""
    x = rotary_body(cfg, w.at("nomic_bert"), batch, mlp)
    return masked_head(cfg, w, x, "nomic_bert.embeddings.word_embeddings", norm="transform.layer_norm")


FAMILY = encoder_family("nomic_bert", read, forward, "NomicBertForMaskedLM", "nomic_bert", tiny={
    **TINY, "hidden_act": "silu", "intermediate_size": 352})
