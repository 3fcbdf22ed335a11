"""RemBERT: BERT whose embeddings are narrower than the model and whose head is wider and of its own."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.models.bert import TINY, BertConfig, body, encoder_family, head_behind, read_encoder
from hierarchos.models.config import Fields
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import activate
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class RemBertConfig(BertConfig):
    """head_width: of the head's rows."""

    head_width: int = 1664


def read(fields: Fields) -> RemBertConfig:
    """The head cannot be tied: its rows are of another width."""
    fields.assume(vocab_size=250300, hidden_size=1152, num_hidden_layers=32, num_attention_heads=18, intermediate_size=4608,
                  hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    fields.only("tie_word_embeddings", False)
    return read_encoder(fields, RemBertConfig, causal=fields.boolean("is_decoder", False), tied=False,
                        embed_width=fields.integer("input_embedding_size", 256), head_width=fields.integer("output_embedding_size", 1664))


def forward(cfg: RemBertConfig, w: Weights, batch: Batch) -> Output:
    """Embeddings, widened, blocks, head."""
    x, head = body(cfg, w.at("rembert"), batch, widen="encoder.embedding_hidden_mapping_in"), w.at("cls.predictions")
    x = activate(cfg.activation, head.linear("dense", x, cfg.head_width, bias=True))
    return head_behind(cfg, head, head.layer_norm("LayerNorm", x, cfg.norm_eps), "", "decoder")


FAMILY = encoder_family("rembert", read, forward, "RemBertForMaskedLM", "rembert",
                        tiny={**TINY, "input_embedding_size": 64, "output_embedding_size": 192})
