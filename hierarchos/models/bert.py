"""BERT: an encoder. Word, type and learned position embeddings under one norm; attention sees both sides; LayerNorm after each half of a
block, plain MLP, biases; logits from a transformed hidden state, the tied embedding and a bias. Base of the other encoders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.sizes import DenseSizes
from hierarchos.nn.attention import Heads, self_attention, separate, unrotated
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import ACTIVATIONS, activate, plain_mlp
from hierarchos.nn.positions import learned
from hierarchos.nn.weights import SINES, ZEROS, Weights


@dataclass(frozen=True)
class BertConfig(DenseSizes):
    """Explicit values. embed_width: of the embeddings; types: kinds of tokens (None: not told apart); first_position: the row of
    positions where a text starts; causal: a decoder (is_decoder); sines: positions start as sinusoids."""

    dropout: float
    attention_dropout: float
    embed_width: int
    types: int | None = None
    first_position: int = 0
    sines: bool = False
    causal: bool = False


DEFAULTS = {"vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
            "max_position_embeddings": 512, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1, "type_vocab_size": 2}
SHARED = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "hidden_act", "hidden_dropout_prob",
          "attention_probs_dropout_prob")


def read_encoder(fields: Fields, kind=BertConfig, names: dict | None = None, positions: tuple = ("absolute", None),
                 **options) -> BertConfig:
    """The fields that relatives share; they `assume` their own defaults before. names: what a relative calls them; positions: kinds of
    positions that it has; options: values that it reads for itself. Heads for other tasks are no part of this model."""
    called = {name: name for name in SHARED} | (names or {})
    fields.assume(**DEFAULTS | fields.assumed)
    fields.harmless("classifier_dropout", "classifier_dropout_prob")
    fields.only("position_embedding_type", *positions)
    width, count = fields.integer(called["hidden_size"]), fields.integer(called["num_attention_heads"])
    if width % count:
        raise fields.refuse(called["hidden_size"], f"a multiple of {called['num_attention_heads']} = {count}")
    first = options.get("first_position", 0)
    rows = fields.integer("max_position_embeddings", minimum=first + 1)
    return kind(**{
        "vocab_size": fields.integer("vocab_size"),
        "max_positions": rows - first,
        "width": width,
        "inner": options.get("inner") or fields.integer(called["intermediate_size"]),
        "layers": fields.integer(called["num_hidden_layers"]),
        "heads": Heads(count, count, width // count),
        "activation": options.get("activation") or fields.choice(called["hidden_act"], "gelu", ACTIVATIONS),
        "initializer_range": options.get("initializer_range") or fields.number("initializer_range", 0.02),
        "norm_eps": options.get("norm_eps") or fields.number("layer_norm_eps"),
        "tied": fields.boolean("tie_word_embeddings", True),
        "dropout": fields.number(called["hidden_dropout_prob"], below=1.0),
        "attention_dropout": fields.number(called["attention_probs_dropout_prob"], below=1.0),
        "embed_width": width,
        "types": fields.integer("type_vocab_size", None),
        **options})


def read(fields: Fields) -> BertConfig:
    """With is_decoder the same weights see only what is before them."""
    return read_encoder(fields, causal=fields.boolean("is_decoder", False))


def words(cfg: BertConfig, w: Weights, batch: Batch, more=None) -> Tensor:
    """Words and the first of the types: [B,T,embed_width]. more(w, words) adds to the words what a relative has besides."""
    x = w.embedding("word_embeddings", batch.ids, cfg.vocab_size, cfg.embed_width)
    x = more(w, x) if more else x
    return x + first_row(w, "token_type_embeddings", cfg.types, cfg.embed_width) if cfg.types else x


def embedded(cfg: BertConfig, w: Weights, batch: Batch, more=None) -> Tensor:
    """`words` and positions: [B,T,embed_width]."""
    return words(cfg, w, batch, more) + learned(w, "position_embeddings", batch, cfg.max_positions, cfg.embed_width, cfg.first_position,
                                                SINES if cfg.sines else None)


def first_row(w: Weights, leaf: str, count: int, width: int) -> Tensor:
    """Row 0 of a table [count, width], which all tokens have: [width]."""
    return w.parameter(f"{leaf}.weight", (count, width))[0]


def normed(cfg: BertConfig, w: Weights, x: Tensor, batch: Batch, leaf: str = "LayerNorm") -> Tensor:
    """The norm over all embeddings, and dropout."""
    return dropout(w.layer_norm(leaf, x, cfg.norm_eps), cfg.dropout, batch, w.prefix)


by_query_key_value = partial(separate, names=("self.query", "self.key", "self.value"))


def attention(cfg: BertConfig, w: Weights, x: Tensor, batch: Batch, rotate=unrotated, **options) -> Tensor:
    """Self-attention on both sides (with `causal`: on earlier tokens), with dropout behind it."""
    options = {"project": by_query_key_value, "output": "output.dense", "qkv_bias": True, "output_bias": True} | options
    mixed = self_attention(w, x, batch, cfg.heads, rotate, dropout=cfg.attention_dropout, causal=cfg.causal, **options)
    return dropout(mixed, cfg.dropout, batch, w.prefix)


def mlp(cfg: BertConfig, w: Weights, x: Tensor, batch: Batch, names: tuple[str, str] = ("intermediate.dense", "output.dense")) -> Tensor:
    """output(activation(intermediate(x))), with dropout behind it."""
    return dropout(plain_mlp(w, x, cfg.inner, cfg.activation, True, names), cfg.dropout, batch, w.name(names[1]))


def post_norm(cfg: BertConfig, layer: Weights, x: Tensor, batch: Batch, attention=attention, mlp=mlp,
              norms: tuple[str, str] = ("attention.output.LayerNorm", "output.LayerNorm"), mixer: str = "attention") -> Tensor:
    """x = norm(x + attention(x)); x = norm(x + mlp(x))."""
    x = layer.layer_norm(norms[0], x + attention(cfg, layer.at(mixer), x, batch), cfg.norm_eps)
    return layer.layer_norm(norms[1], x + mlp(cfg, layer, x, batch), cfg.norm_eps)


def pre_norm(cfg: BertConfig, layer: Weights, x: Tensor, batch: Batch, norms: tuple[str, str], attention=attention, mlp=mlp) -> Tensor:
    """x += attention(norm(x)); x += mlp(norm(x))."""
    x = x + attention(cfg, layer.at("attention"), layer.layer_norm(norms[0], x, cfg.norm_eps), batch)
    return x + mlp(cfg, layer, layer.layer_norm(norms[1], x, cfg.norm_eps), batch)


def encoder(cfg: BertConfig, w: Weights, x: Tensor, batch: Batch, block=post_norm, path: tuple[str, ...] = ("encoder", "layer")) -> Tensor:
    """All blocks."""
    for index in range(cfg.layers):
        layer = w.at(*path, index)
        with region(batch, layer.prefix):
            x = block(cfg, layer, x, batch)
    return x


def body(cfg: BertConfig, w: Weights, batch: Batch, more=None, widen: str | None = None, block=post_norm, embedded=embedded,
         path: tuple[str, ...] = ("encoder", "layer")) -> Tensor:
    """Embeddings and blocks below `w`: [B,T,D]. widen: the projection of narrow embeddings."""
    part = w.at("embeddings")
    x = normed(cfg, part, embedded(cfg, part, batch, more), batch)
    x = w.linear(widen, x, cfg.width, bias=True) if widen else x
    return encoder(cfg, w, x, batch, block, path)


def masked_head(cfg: BertConfig, w: Weights, x: Tensor, embedding: str, place: str = "cls.predictions", activation: str | None = None,
                dense: str = "transform.dense", norm: str = "transform.LayerNorm") -> Output:
    """norm(activation(dense(x))), then the head: the embedding when tied, and a bias beside the transformation; `decoder` otherwise,
    with a bias of its own, while the other is there and unused."""
    head = w.at(place)
    x = activate(activation or cfg.activation, head.linear(dense, x, cfg.embed_width, bias=True))
    x = head.layer_norm(norm, x, cfg.norm_eps)
    return tied_head(cfg, head, x, w.at(embedding))


def head_behind(cfg, w: Weights, x: Tensor, embedding: str, name: str) -> Output:
    """A head over x that is one linear layer with a bias; where it is tied, its weight is the embedding's."""
    shape, bias = (cfg.vocab_size, x.shape[-1]), w.parameter(f"{name}.bias", (cfg.vocab_size,), ZEROS)
    place = Weights(w.std, "", w.table, w.source).at(embedding) if cfg.tied else w.at(name)
    return Output(x, place.parameter("weight", shape), place.name("weight"), bias)


def tied_head(cfg, head: Weights, x: Tensor, embedding: Weights, decoder: str = "decoder") -> Output:
    """The head over x for an embedding whose `weight` it shares where it is tied; see `masked_head`."""
    shape, size = (cfg.vocab_size, x.shape[-1]), (cfg.vocab_size,)
    bias = head.parameter("bias", size, ZEROS, used=cfg.tied)
    if cfg.tied:
        return Output(x, embedding.parameter("weight", shape), embedding.name("weight"), bias)
    own = head.at(decoder)
    return Output(x, own.parameter("weight", shape), own.name("weight"), own.parameter("bias", size, ZEROS))


def forward(cfg: BertConfig, w: Weights, batch: Batch, root: str = "bert", more=None) -> Output:
    """Embeddings, blocks, head. root: the name that the encoder has; more: see `embedded`."""
    return masked_head(cfg, w, body(cfg, w.at(root), batch, more), f"{root}.embeddings.word_embeddings")


WORDS = "embeddings.word_embeddings.weight"
BUFFERS = (r"embeddings\.position_ids$", r"embeddings\.token_type_ids$")
TINY = {
    "vocab_size": 2048, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512,
    "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu", "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-12, "initializer_range": 0.02}


def encoder_family(model_type: str, read, forward, architecture: str, root: str, head: str = "cls.predictions.decoder.weight",
                   tiny: dict | None = None, **options) -> Family:
    """A family whose encoder's parameters stand below `root`."""
    options = {"task": "masked", "base": root, "embedding": f"{root}.{WORDS}", "buffers": BUFFERS} | options
    config = {"model_type": model_type, "architectures": [architecture], **(TINY if tiny is None else tiny)}
    return Family(model_type, read, forward, head=head, tiny=config, **options)


FAMILY = encoder_family("bert", read, forward, "BertForMaskedLM", "bert")
