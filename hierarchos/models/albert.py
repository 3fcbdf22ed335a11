"""ALBERT: BERT whose layers share their parameters by group, whose embeddings are narrower than the model, and whose GELU is the tanh
form. A group may hold several layers, which it runs through each time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.models import bert
from hierarchos.models.bert import TINY, BertConfig, encoder_family, masked_head, normed, post_norm, read_encoder
from hierarchos.models.config import Fields
from hierarchos.nn.attention import separate
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class AlbertConfig(BertConfig):
    """groups: of layers, those of one share parameters; inner_layers: of each group."""

    groups: int = 1
    inner_layers: int = 1

    def group(self, index: int) -> int:
        """Which group a layer belongs to."""
        return int(index / (self.layers / self.groups))


def read(fields: Fields) -> AlbertConfig:
    """The sizes of the largest model are the default."""
    fields.assume(vocab_size=30000, hidden_size=4096, num_attention_heads=64, intermediate_size=16384, hidden_act="gelu_new",
                  hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    fields.harmless("net_structure_type", "gap_size", "num_memory_blocks", "down_scale_factor")      # of no reader, in old packages
    return read_encoder(fields, AlbertConfig, embed_width=fields.integer("embedding_size", 128),
                        groups=fields.integer("num_hidden_groups", 1), inner_layers=fields.integer("inner_group_num", 1))


block = partial(
    post_norm, attention=partial(bert.attention, project=partial(separate, names=("query", "key", "value")), output="dense"),
    mlp=partial(bert.mlp, names=("ffn", "ffn_output")), norms=("attention.LayerNorm", "full_layer_layer_norm"))


def forward(cfg: AlbertConfig, w: Weights, batch: Batch) -> Output:
    """Embeddings, widened, blocks, head."""
    part, layers = w.at("albert.embeddings"), w.at("albert.encoder")
    x = normed(cfg, part, bert.embedded(cfg, part, batch), batch)
    x = layers.linear("embedding_hidden_mapping_in", x, cfg.width, bias=True)
    for index in range(cfg.layers):
        for inner in range(cfg.inner_layers):
            layer = layers.at("albert_layer_groups", cfg.group(index), "albert_layers", inner)
            with region(batch, f"{layer.prefix} in layer {index}"):
                x = block(cfg, layer, x, batch)
    return masked_head(cfg, w, x, "albert.embeddings.word_embeddings", "predictions", dense="dense", norm="LayerNorm")


FAMILY = encoder_family("albert", read, forward, "AlbertForMaskedLM", "albert", "predictions.decoder.weight",
                        {**TINY, "hidden_act": "gelu_new", "embedding_size": 64, "hidden_size": 256, "intermediate_size": 1024})
