"""Megatron-BERT: BERT with the norm before each half of a block, one at the end, and none on the embeddings."""

from __future__ import annotations

from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models.bert import BertConfig, embedded, encoder, encoder_family, masked_head, pre_norm, read_encoder
from hierarchos.models.config import Fields
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.dropout import dropout
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> BertConfig:
    """The sizes of the large model are the default."""
    fields.assume(vocab_size=29056, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    return read_encoder(fields, causal=fields.boolean("is_decoder", False))


def unnormed_body(cfg: BertConfig, w: Weights, batch: Batch, norms: tuple[str, str] = ("attention.ln", "ln"), last: str = "encoder.ln"
                  ) -> Tensor:
    """Embeddings, blocks, final norm: [B,T,D]. norms: the names of those of a block."""
    x = embedded(cfg, w.at("embeddings"), batch)
    x = encoder(cfg, w, dropout(x, cfg.dropout, batch, w.name("embeddings")), batch, partial(pre_norm, norms=norms))
    return w.layer_norm(last, x, cfg.norm_eps)


def forward(cfg: BertConfig, w: Weights, batch: Batch) -> Output:
    """Embeddings, blocks, head."""
    return masked_head(cfg, w, unnormed_body(cfg, w.at("bert"), batch), "bert.embeddings.word_embeddings")


FAMILY = encoder_family("megatron-bert", read, forward, "MegatronBertForMaskedLM", "bert")
