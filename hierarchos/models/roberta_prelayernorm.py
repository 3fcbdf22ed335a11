"""RoBERTa with the norm before each half of a block and one at the end."""

from __future__ import annotations

from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models import bert, roberta
from hierarchos.models.bert import BertConfig, pre_norm
from hierarchos.nn.batch import Batch
from hierarchos.nn.weights import Weights


def body(cfg: BertConfig, w: Weights, batch: Batch) -> Tensor:
    """Embeddings, blocks, final norm: [B,T,D]."""
    block = partial(pre_norm, norms=("attention.LayerNorm", "intermediate.LayerNorm"))
    return w.layer_norm("LayerNorm", bert.body(cfg, w, batch, block=block), cfg.norm_eps)


ROOT = "roberta_prelayernorm"
FAMILY = roberta.roberta_family("roberta-prelayernorm", roberta.read, partial(roberta.forward, root=ROOT, body=body),
                                "RobertaPreLayerNormForMaskedLM", ROOT)
