"""RoFormer: BERT without a table of positions, whose queries and keys (values too, where rotary_value is set) are rotated in neighbouring
pairs, and whose embeddings may be narrower than the model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models import bert
from hierarchos.models.bert import BUFFERS, TINY, BertConfig, body, encoder_family, masked_head, post_norm, read_encoder, words
from hierarchos.models.config import Fields
from hierarchos.nn.attention import Heads
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.positions import check_length, interleaved_sines
from hierarchos.nn.weights import Weights

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class RoFormerConfig(BertConfig):
    """values_too: values are rotated as well."""

    values_too: bool = False


def read(fields: Fields) -> RoFormerConfig:
    """embedding_size is the model's width where it is absent."""
    fields.assume(vocab_size=50000, max_position_embeddings=1536)
    return read_encoder(fields, RoFormerConfig, causal=fields.boolean("is_decoder", False),
                        embed_width=fields.integer("embedding_size", fields.integer("hidden_size", 768)),
                        values_too=fields.boolean("rotary_value", False))


def tables(cfg: RoFormerConfig) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin, float32 [positions, half a head]."""
    sines = interleaved_sines(cfg.max_positions, cfg.heads.width)
    return sines[:, 1::2], sines[:, 0::2]


def constants(cfg: RoFormerConfig) -> dict:
    """Packages hold the tables side by side."""
    import numpy as np

    cos, sin = tables(cfg)
    return {"roformer.encoder.embed_positions.weight": np.concatenate([sin, cos], axis=1)}


def forward(cfg: RoFormerConfig, w: Weights, batch: Batch) -> Output:
    """BERT's with a rotation in each block."""
    check_length(batch, cfg.max_positions)
    cos, sin = (F.constant(table.copy()) for table in tables(cfg))

    def rotate(x: Tensor) -> Tensor:
        return F.rope(x, cos, sin, batch.positions, "interleaved")

    def project(w: Weights, x: Tensor, heads: Heads, bias: bool) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = bert.by_query_key_value(w, x, heads, bias)
        return q, k, rotate(v) if cfg.values_too else v

    block = partial(post_norm, attention=partial(bert.attention, rotate=rotate, project=project))
    widen = "embeddings_project" if cfg.embed_width != cfg.width else None
    x = body(cfg, w.at("roformer"), batch, widen=widen, block=block, embedded=words)
    return masked_head(cfg, w, x, "roformer.embeddings.word_embeddings")


FAMILY = encoder_family("roformer", read, forward, "RoFormerForMaskedLM", "roformer", tiny={**TINY, "embedding_size": 64},
                        constants=constants, buffers=(*BUFFERS, r"encoder\.embed_positions\.weight$"))
