"""ESM-2 (protein language model): Megatron-BERT's order of norms, rotary or learned positions, an optional norm on the embeddings, and
embeddings rescaled by the share of masked tokens (token_dropout). The head of contacts is there and not used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models import bert
from hierarchos.models.bert import BUFFERS, TINY, BertConfig, embedded, encoder, encoder_family, pre_norm, read_encoder
from hierarchos.models.config import Fields
from hierarchos.models.rope_config import read_rope
from hierarchos.nn.attention import rotation, unrotated
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import activate
from hierarchos.nn.rotary import Rope, inverse_frequencies
from hierarchos.nn.weights import ZEROS, Weights

TRAINED_SHARE = 1 - 0.15 * 0.8      # of tokens that were not masked when the released models were trained


@dataclass(frozen=True)
class EsmConfig(BertConfig):
    """rope: of all layers (None: learned positions); embed_norm: a norm on the embeddings; masked: the token whose embedding counts as
    dropped (None: all tokens are alike)."""

    rope: Rope | None = None
    embed_norm: bool = False
    masked: int | None = None


def read(fields: Fields) -> EsmConfig:
    """Learned positions are numbered from behind the padding token, as RoBERTa's."""
    fields.assume(max_position_embeddings=1026, type_vocab_size=None)
    fields.only("is_folding_model", False, None)
    for name in ("esmfold_config", "vocab_list"):
        fields.only(name, None)
    kinds = {"absolute": False, "rotary": True}
    rotary = kinds[fields.choice("position_embedding_type", "absolute", kinds)]
    first = 0 if rotary else fields.integer("pad_token_id", minimum=0) + 1
    width, positions = fields.integer("hidden_size", 768), fields.integer("max_position_embeddings")
    rope = read_rope(fields, width // fields.integer("num_attention_heads", 12), positions)
    return read_encoder(fields, EsmConfig, positions=("absolute", "rotary", None), first_position=first, rope=rope if rotary else None,
                        embed_norm=fields.boolean("emb_layer_norm_before", False),
                        masked=fields.integer("mask_token_id", minimum=0) if fields.boolean("token_dropout", False) else None)


def rescaled(cfg: EsmConfig, batch: Batch, x: Tensor) -> Tensor:
    """Embeddings of masked tokens dropped, the others multiplied by the trained share of unmasked tokens over that of their document."""
    kept = 1.0 - F.cast(F.eq(batch.ids, cfg.masked), "f32")
    rows, length = batch.ids.shape
    same = F.cast(F.eq(F.reshape(batch.segments, (rows, length, 1)), F.reshape(batch.segments, (rows, 1, length))), "f32")
    share = F.sum(same * F.reshape(kept, (rows, 1, length)), (2,)) / F.sum(same, (2,))
    return x * F.reshape(kept * TRAINED_SHARE / share, (rows, length, 1))


def forward(cfg: EsmConfig, w: Weights, batch: Batch) -> Output:
    """Embeddings, blocks, final norm, transformation, head."""
    model, part, head = w.at("esm"), w.at("esm.embeddings"), w.at("lm_head")
    rescale = (lambda w, x: rescaled(cfg, batch, x)) if cfg.masked is not None else None
    x = (bert.words if cfg.rope else embedded)(cfg, part, batch, rescale)
    x = part.layer_norm("layer_norm", x, cfg.norm_eps) if cfg.embed_norm else x
    attention = partial(bert.attention, rotate=rotation(cfg.rope, batch) if cfg.rope else unrotated)
    x = encoder(cfg, model, x, batch, partial(pre_norm, norms=("attention.LayerNorm", "LayerNorm"), attention=attention))
    x = model.layer_norm("encoder.emb_layer_norm_after", x, cfg.norm_eps)
    contacts = model.at("contact_head.regression")
    contacts.parameter("weight", (1, cfg.layers * cfg.heads.queries), used=False)
    contacts.parameter("bias", (1,), ZEROS, used=False)
    x = head.layer_norm("layer_norm", activate("gelu", head.linear("dense", x, cfg.width, bias=True)), cfg.norm_eps)
    place = part.at("word_embeddings") if cfg.tied else head.at("decoder")
    return Output(x, place.parameter("weight", (cfg.vocab_size, cfg.width)), place.name("weight"),
                  head.parameter("bias", (cfg.vocab_size,), ZEROS))


def constants(cfg: EsmConfig) -> dict:
    """The frequencies of the rotation, which released packages hold in every layer."""
    names = [f"esm.encoder.layer.{index}.attention.self.rotary_embeddings.inv_freq" for index in range(cfg.layers)]
    return dict.fromkeys(names, inverse_frequencies(cfg.rope)) if cfg.rope else {}


FAMILY = encoder_family(
    "esm", read, forward, "EsmForMaskedLM", "esm", "lm_head.decoder.weight",
    {name: value for name, value in TINY.items() if name not in ("type_vocab_size", "hidden_act")} | {
        "position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 4, "pad_token_id": 1, "emb_layer_norm_before": False},
    constants=constants, buffers=(*BUFFERS, r"rotary_embeddings\.inv_freq$"))
