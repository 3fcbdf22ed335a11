"""DistilBERT: BERT under its own names, without types of tokens; sinusoidal positions are only where
its learned positions start (so they are in the reference since its version 5)."""

from __future__ import annotations

from functools import partial

from hierarchos.models import bert
from hierarchos.models.bert import BertConfig, encoder, encoder_family, head_behind, normed, post_norm, read_encoder
from hierarchos.models.config import Fields
from hierarchos.nn.attention import separate
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import activate
from hierarchos.nn.weights import Weights

NORM_EPS = 1e-12    # not a field


def read(fields: Fields) -> BertConfig:
    """Each size under its own name or the common one."""
    fields.spelled(dim="hidden_size", n_layers="num_hidden_layers", n_heads="num_attention_heads")
    fields.harmless("qa_dropout", "seq_classif_dropout")
    fields.assume(n_layers=6, n_heads=12, dim=768, hidden_dim=3072, activation="gelu", dropout=0.1, attention_dropout=0.1,
                  type_vocab_size=None)
    names = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "intermediate_size": "hidden_dim",
             "hidden_act": "activation", "hidden_dropout_prob": "dropout", "attention_probs_dropout_prob": "attention_dropout"}
    return read_encoder(fields, names=names, norm_eps=NORM_EPS, sines=fields.boolean("sinusoidal_pos_embds", False))


attention = partial(bert.attention, project=partial(separate, names=("q_lin", "k_lin", "v_lin")), output="out_lin")
mlp = partial(bert.mlp, names=("ffn.lin1", "ffn.lin2"))
block = partial(post_norm, attention=attention, mlp=mlp, norms=("sa_layer_norm", "output_layer_norm"))


def forward(cfg: BertConfig, w: Weights, batch: Batch) -> Output:
    """Embeddings, blocks, head."""
    model, part = w.at("distilbert"), w.at("distilbert.embeddings")
    x = normed(cfg, part, bert.embedded(cfg, part, batch), batch)
    x = encoder(cfg, model, x, batch, block, path=("transformer", "layer"))
    x = w.layer_norm("vocab_layer_norm", activate(cfg.activation, w.linear("vocab_transform", x, cfg.width, bias=True)), cfg.norm_eps)
    return head_behind(cfg, w, x, "distilbert.embeddings.word_embeddings", "vocab_projector")


FAMILY = encoder_family("distilbert", read, forward, "DistilBertForMaskedLM", "distilbert", "vocab_projector.weight", {
    "vocab_size": 2048, "dim": 128, "n_layers": 4, "n_heads": 4, "hidden_dim": 512, "max_position_embeddings": 512, "activation": "gelu",
    "dropout": 0.0, "attention_dropout": 0.0, "initializer_range": 0.02})
