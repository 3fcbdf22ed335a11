"""ELECTRA's generator: BERT whose embeddings may be narrower than the model, with a head of other names, always GELU.

The discriminator has no language model head and is not this."""

from __future__ import annotations

from hierarchos.models.bert import TINY, BertConfig, body, encoder_family, head_behind, read_encoder
from hierarchos.models.config import Fields
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import activate
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> BertConfig:
    """Fields about a summary of the text belong to other tasks."""
    fields.harmless("summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout")
    fields.assume(embedding_size=128, hidden_size=256, num_attention_heads=4, intermediate_size=1024)
    return read_encoder(fields, causal=fields.boolean("is_decoder", False), embed_width=fields.integer("embedding_size"))


def forward(cfg: BertConfig, w: Weights, batch: Batch) -> Output:
    """Embeddings, widened where they are narrower, blocks, head."""
    widen = "embeddings_project" if cfg.embed_width != cfg.width else None
    x, head = body(cfg, w.at("electra"), batch, widen=widen), w.at("generator_predictions")
    x = head.layer_norm("LayerNorm", activate("gelu", head.linear("dense", x, cfg.embed_width, bias=True)), cfg.norm_eps)
    return head_behind(cfg, w, x, "electra.embeddings.word_embeddings", "generator_lm_head")


FAMILY = encoder_family("electra", read, forward, "ElectraForMaskedLM", "electra", "generator_lm_head.weight",
                        {**TINY, "embedding_size": 64, "intermediate_size": 512})
