"""BERT for generation: BERT without types of tokens, whose head is the tied embedding and a bias. Causal where is_decoder is set."""

from __future__ import annotations

from hierarchos.models.bert import TINY, BertConfig, body, encoder_family, read_encoder, tied_head
from hierarchos.models.config import Fields
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> BertConfig:
    """The sizes of the large model are the default."""
    fields.assume(vocab_size=50358, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
                  type_vocab_size=None)
    return read_encoder(fields, causal=fields.boolean("is_decoder", False))


def forward(cfg: BertConfig, w: Weights, batch: Batch) -> Output:
    """Embeddings, blocks, head."""
    return tied_head(cfg, w.at("lm_head"), body(cfg, w.at("bert"), batch), w.at("bert.embeddings.word_embeddings"))


FAMILY = encoder_family("bert-generation", read, forward, "BertGenerationDecoder", "bert", "lm_head.decoder.weight", task="causal", tiny={
    **{name: value for name, value in TINY.items() if name != "type_vocab_size"}, "is_decoder": True})
