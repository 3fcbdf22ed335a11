"""RoCBert: BERT whose words are joined by embeddings of their shape and their sound, and mapped back to the width of the model.

Tokens alone say neither shape nor sound, and the reference then takes row 0 of both tables: so do we."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.bert import TINY, BertConfig, encoder_family, first_row, read_encoder
from hierarchos.models.bert import forward as bert_forward
from hierarchos.models.config import Fields
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class RoCBertConfig(BertConfig):
    """tables: name, rows and width of each table beside the words."""

    tables: tuple[tuple[str, int, int], ...] = ()


def read(fields: Fields) -> RoCBertConfig:
    """Tables that are added instead of joined are not implemented."""
    fields.only("concat_input", True)
    shape = "shape_embed", fields.integer("shape_vocab_size", 24858), fields.integer("shape_embed_dim", 512)
    sound = "pronunciation_embed", fields.integer("pronunciation_vocab_size", 910), fields.integer("pronunciation_embed_dim", 768)
    fields.only("enable_shape", True)
    fields.only("enable_pronunciation", True)
    return read_encoder(fields, RoCBertConfig, causal=fields.boolean("is_decoder", False), tables=(shape, sound))


def mapped(cfg: RoCBertConfig, w: Weights, x: Tensor) -> Tensor:
    """The words, their shape and their sound side by side, through one projection."""
    beside = [F.expand(first_row(w, *table), (*x.shape[:2], table[2])) for table in cfg.tables]
    return w.linear("map_inputs_layer", F.concat([x, *beside], 2), cfg.width, bias=True)


def forward(cfg: RoCBertConfig, w: Weights, batch: Batch) -> Output:
    """BERT's, with the mapping."""
    return bert_forward(cfg, w, batch, "roc_bert", partial(mapped, cfg))


FAMILY = encoder_family("roc_bert", read, forward, "RoCBertForMaskedLM", "roc_bert", tiny={
    **TINY, "shape_vocab_size": 64, "shape_embed_dim": 32, "pronunciation_vocab_size": 64, "pronunciation_embed_dim": 32})
