"""OPT: learned positions (numbered from 2) added to the embedding, LayerNorm before or after each half of a block, plain MLP of ReLU,
biases, and embeddings that may be narrower than the model. Base of BioGPT, XGLM and TrOCR."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import language_model
from hierarchos.models.sizes import Sizes
from hierarchos.nn.attention import Heads, self_attention, unrotated
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import ACTIVATIONS, activate
from hierarchos.nn.positions import learned
from hierarchos.nn.weights import Weights

NORM_EPS = 1e-5     # not a field
OFFSET = 2          # of the rows of positions: a padding row and one more lie before them


@dataclass(frozen=True)
class OPTConfig(Sizes):
    """Explicit values. embed_width: of the embedding; embed_scale: its factor; affine: norms have parameters; dropouts: probabilities."""

    inner: int
    activation: str
    dropout: float
    attention_dropout: float
    embed_width: int
    activation_dropout: float = 0.0
    embed_scale: float = 1.0
    pre_norm: bool = True
    final_norm: bool = True
    bias: bool = True
    affine: bool = True


NAMES = {"width": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads", "inner": "ffn_dim",
         "activation": "activation_function", "spread": "init_std", "dropout": "dropout", "attention_dropout": "attention_dropout"}


def read_layers(fields: Fields, names: dict[str, str], kind=OPTConfig, **options) -> OPTConfig:
    """What relatives share; `names` says what they call it. They `assume` their defaults before."""
    width, count = fields.integer(names["width"]), fields.integer(names["heads"])
    if width % count:
        raise fields.refuse(names["width"], f"a multiple of {names['heads']} = {count}")
    return kind(
        vocab_size=fields.integer("vocab_size"),
        max_positions=fields.integer("max_position_embeddings"),
        width=width,
        inner=fields.integer(names["inner"]),
        layers=fields.integer(names["layers"]),
        heads=Heads(count, count, width // count),
        activation=fields.choice(names["activation"], "gelu", ACTIVATIONS),
        initializer_range=fields.number(names["spread"], 0.02),
        tied=fields.boolean("tie_word_embeddings", True),
        dropout=fields.number(names["dropout"], 0.1, below=1.0),
        attention_dropout=fields.number(names["attention_dropout"], 0.0, below=1.0),
        embed_width=options.pop("embed_width", width),
        **options)


def read(fields: Fields) -> OPTConfig:
    """Layers dropped at random in training are not implemented."""
    fields.assume(vocab_size=50272, hidden_size=768, num_hidden_layers=12, ffn_dim=3072, max_position_embeddings=2048,
                  num_attention_heads=12, activation_function="relu")
    fields.only("layerdrop", None, 0.0, 0)
    pre_norm = fields.boolean("do_layer_norm_before", True)
    return read_layers(fields, NAMES, embed_width=fields.integer("word_embed_proj_dim", fields.integer("hidden_size")), pre_norm=pre_norm,
                       final_norm=pre_norm and not fields.boolean("_remove_final_layer_norm", False),
                       bias=fields.boolean("enable_bias", True), affine=fields.boolean("layer_norm_elementwise_affine", True))


def norm(cfg: OPTConfig, w: Weights, leaf: str, x: Tensor) -> Tensor:
    """LayerNorm, with parameters or without."""
    return w.layer_norm(leaf, x, NORM_EPS) if cfg.affine else F.layer_norm(x, eps=NORM_EPS)


def attention(cfg: OPTConfig, w: Weights, x: Tensor, batch: Batch) -> Tensor:
    """Self-attention with dropout behind it."""
    mixed = self_attention(w, x, batch, cfg.heads, unrotated, qkv_bias=cfg.bias, output_bias=cfg.bias, output="out_proj",
                           dropout=cfg.attention_dropout)
    return dropout(mixed, cfg.dropout, batch, w.prefix)


def mlp(cfg: OPTConfig, w: Weights, x: Tensor, batch: Batch) -> Tensor:
    """fc2(activation(fc1(x))), with dropout behind each."""
    h = dropout(activate(cfg.activation, w.linear("fc1", x, cfg.inner, cfg.bias)), cfg.activation_dropout, batch, w.name("fc1"))
    return dropout(w.linear("fc2", h, cfg.width, cfg.bias), cfg.dropout, batch, w.name("fc2"))


def decoder_layers(cfg: OPTConfig, model: Weights, x: Tensor, batch: Batch, beside=None) -> Tensor:
    """x += attention(norm(x)); x += mlp(norm(x)), or x = norm(x + ...) in both. beside(layer): declares what else a layer has."""
    for index in range(cfg.layers):
        layer = model.at("layers", index)
        with region(batch, layer.prefix):
            if cfg.pre_norm:
                x = x + attention(cfg, layer.at("self_attn"), norm(cfg, layer, "self_attn_layer_norm", x), batch)
                x = x + mlp(cfg, layer, norm(cfg, layer, "final_layer_norm", x), batch)
            else:
                x = norm(cfg, layer, "self_attn_layer_norm", x + attention(cfg, layer.at("self_attn"), x, batch))
                x = norm(cfg, layer, "final_layer_norm", x + mlp(cfg, layer, x, batch))
        if beside:
            beside(layer)
    return x


def forward(cfg: OPTConfig, w: Weights, batch: Batch) -> Output:
    """Embedding, projected where it is narrower, positions, layers, final norm, projected back."""
    model = w.at("model.decoder")
    x = model.embedding("embed_tokens", batch.ids, cfg.vocab_size, cfg.embed_width)
    narrow = cfg.embed_width != cfg.width
    x = model.linear("project_in", x, cfg.width) if narrow else x
    x = x + learned(model, "embed_positions", batch, cfg.max_positions, cfg.width, OFFSET)
    x = decoder_layers(cfg, model, x, batch)
    x = norm(cfg, model, "final_layer_norm", x) if cfg.final_norm else x
    x = model.linear("project_out", x, cfg.embed_width) if narrow else x
    return language_model(cfg.tied, "model.decoder.embed_tokens", w, x, cfg.vocab_size)


FAMILY = Family("opt", read, forward, base="model", embedding="model.decoder.embed_tokens.weight", tiny={
    "model_type": "opt", "architectures": ["OPTForCausalLM"], "vocab_size": 2048, "hidden_size": 128, "num_hidden_layers": 4,
    "ffn_dim": 512, "num_attention_heads": 4, "max_position_embeddings": 512, "word_embed_proj_dim": 128, "do_layer_norm_before": True,
    "activation_function": "relu", "dropout": 0.0, "attention_dropout": 0.0, "layerdrop": 0.0, "init_std": 0.02})
