"""RoBERTa: BERT whose positions are numbered from behind the padding token's number, with a head of other names and always GELU."""

from __future__ import annotations

from functools import partial

from hierarchos.models.bert import TINY, BertConfig, body, encoder_family, masked_head, read_encoder
from hierarchos.models.config import Fields
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


def read(fields: Fields, vocab_size: int = 50265, kind=BertConfig, **options) -> BertConfig:
    """The reference numbers tokens that are not padding from pad_token_id + 1: the batch's positions say the same."""
    fields.assume(**{"vocab_size": vocab_size} | fields.assumed)
    first = fields.integer("pad_token_id", 1, minimum=0) + 1
    return read_encoder(fields, kind, causal=fields.boolean("is_decoder", False), first_position=first, **options)


roberta_head = partial(masked_head, place="lm_head", activation="gelu", dense="dense", norm="layer_norm")


def forward(cfg: BertConfig, w: Weights, batch: Batch, root: str = "roberta", body=body) -> Output:
    """Embeddings, blocks, head."""
    return roberta_head(cfg, w, body(cfg, w.at(root), batch), f"{root}.embeddings.word_embeddings")


ROBERTA_TINY = {**TINY, "max_position_embeddings": 514, "pad_token_id": 1}
roberta_family = partial(encoder_family, head="lm_head.decoder.weight", tiny=ROBERTA_TINY)
FAMILY = roberta_family("roberta", read, forward, "RobertaForMaskedLM", "roberta")
