"""GPT-Neo: GPT-2 with separate q, k, v, unscaled scores, a window on every other layer, and weights stored [out, in]."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.gpt2 import embedded
from hierarchos.models.llama import language_model
from hierarchos.models.sizes import DenseSizes
from hierarchos.nn.attention import Heads, attend, separate
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import ACTIVATIONS, activate
from hierarchos.nn.weights import Weights

KINDS = ("global", "local")


@dataclass(frozen=True)
class GPTNeoConfig(DenseSizes):
    """Explicit values; `windows` has one entry a layer (None: all earlier keys)."""

    windows: tuple[int | None, ...]
    embedding_dropout: float
    residual_dropout: float
    attention_dropout: float


def read(fields: Fields) -> GPTNeoConfig:
    """attention_types lists [kinds, repetitions]; attention_layers, the list that follows from it, is checked."""
    fields.harmless("classifier_dropout", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
                    "summary_first_dropout", "attention_layers")
    width, layers, count = fields.integer("hidden_size", 2048), fields.integer("num_layers", 24), fields.integer("num_heads", 16)
    if width % count:
        raise fields.refuse("hidden_size", f"a multiple of num_heads = {count}")
    window, kinds = fields.integer("window_size", 256), read_kinds(fields, layers)
    return GPTNeoConfig(
        vocab_size=fields.integer("vocab_size", 50257),
        max_positions=fields.integer("max_position_embeddings", 2048),
        width=width,
        inner=fields.integer("intermediate_size", 4 * width),
        layers=layers,
        heads=Heads(count, count, width // count),
        windows=tuple(window if kind == "local" else None for kind in kinds),
        activation=fields.choice("activation_function", "gelu_new", ACTIVATIONS),
        initializer_range=fields.number("initializer_range", 0.02),
        norm_eps=fields.number("layer_norm_epsilon", 1e-5),
        tied=fields.boolean("tie_word_embeddings", True),
        embedding_dropout=fields.number("embed_dropout", 0.0, below=1.0),
        residual_dropout=fields.number("resid_dropout", 0.0, below=1.0),
        attention_dropout=fields.number("attention_dropout", 0.0, below=1.0),
    )


def read_kinds(fields: Fields, layers: int) -> list[str]:
    """"global" or "local" for each layer."""
    types = fields.any("attention_types", [[list(KINDS), layers // 2]])
    try:
        kinds = [kind for names, times in types for _ in range(times) for kind in names]
    except (TypeError, ValueError):
        kinds = []
    if len(kinds) != layers or set(kinds) - set(KINDS) or fields.raw.get("attention_layers", kinds) != kinds:
        raise fields.refuse("attention_types", f'[[["global", "local"], {layers // 2}]] or the like, for {layers} layers in all')
    return kinds


def attention(cfg: GPTNeoConfig, w: Weights, x: Tensor, batch: Batch, window: int | None) -> Tensor:
    """Only out_proj has a bias."""
    q, k, v = separate(w, x, cfg.heads, bias=False)
    mixed = attend(w, batch, q, k, v, window=window, scale=1.0, dropout=cfg.attention_dropout)
    return dropout(w.linear("out_proj", mixed, cfg.width, bias=True), cfg.residual_dropout, batch, w.name("out_proj"))


def mlp(cfg: GPTNeoConfig, w: Weights, x: Tensor, batch: Batch) -> Tensor:
    """c_proj(activation(c_fc(x)))."""
    out = w.linear("c_proj", activate(cfg.activation, w.linear("c_fc", x, cfg.inner, bias=True)), cfg.width, bias=True)
    return dropout(out, cfg.residual_dropout, batch, w.name("c_proj"))


def forward(cfg: GPTNeoConfig, w: Weights, batch: Batch) -> Output:
    """x += attention(norm(x)); x += mlp(norm(x)); final norm."""
    model = w.at("transformer")
    x = embedded(cfg, model, batch)
    for index, window in enumerate(cfg.windows):
        layer = model.at("h", index)
        with region(batch, layer.prefix):
            x = x + attention(cfg, layer.at("attn", "attention"), layer.layer_norm("ln_1", x, cfg.norm_eps), batch, window)
            x = x + mlp(cfg, layer.at("mlp"), layer.layer_norm("ln_2", x, cfg.norm_eps), batch)
    return language_model(cfg.tied, "transformer.wte", w, model.layer_norm("ln_f", x, cfg.norm_eps), cfg.vocab_size)


FAMILY = Family("gpt_neo", read, forward, base="transformer", embedding="transformer.wte.weight",
                buffers=(r"\.attention\.(bias|masked_bias)$",), tiny={
    "model_type": "gpt_neo", "architectures": ["GPTNeoForCausalLM"], "vocab_size": 2048, "max_position_embeddings": 512,
    "hidden_size": 128, "num_layers": 4, "num_heads": 4, "attention_types": [[["global", "local"], 2]], "window_size": 64,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "initializer_range": 0.02})
