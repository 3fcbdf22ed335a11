"""XLM-RoBERTa-XL: RoBERTa with the norm before each half of a block, one at the end, and none on the embeddings."""

from __future__ import annotations

from functools import partial

from hierarchos.models import roberta
from hierarchos.models.bert import BertConfig
from hierarchos.models.config import Fields
from hierarchos.models.megatron_bert import unnormed_body
from hierarchos.models.roberta import ROBERTA_TINY, roberta_family


def read(fields: Fields) -> BertConfig:
    """The sizes of the XL model are the default."""
    fields.assume(hidden_size=2560, num_hidden_layers=36, num_attention_heads=32, intermediate_size=10240, max_position_embeddings=514,
                  type_vocab_size=1, layer_norm_eps=1e-5)
    return roberta.read(fields, vocab_size=250880)


body = partial(unnormed_body, norms=("attention.self_attn_layer_norm", "LayerNorm"), last="encoder.LayerNorm")
FAMILY = roberta_family("xlm-roberta-xl", read, partial(roberta.forward, body=body), "XLMRobertaXLForMaskedLM", "roberta",
                        tiny={**ROBERTA_TINY, "type_vocab_size": 1, "layer_norm_eps": 1e-5})
