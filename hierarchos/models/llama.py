"""Llama: RMSNorm before each block, rotary positions, grouped queries, gated MLP. Base of other families."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.rope_config import read_rope
from hierarchos.nn.attention import Heads, rotation, self_attention
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.mlp import ACTIVATIONS, gated_mlp
from hierarchos.nn.rotary import Rope
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class LlamaConfig:
    """Explicit values of a Llama-like decoder; `windows` has one entry a layer (None: full attention)."""

    vocab_size: int
    width: int
    inner: int
    layers: int
    heads: Heads
    activation: str
    max_positions: int
    initializer_range: float
    norm_eps: float
    tied: bool
    rope: Rope
    windows: tuple[int | None, ...]
    attention_dropout: float
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False


def read_decoder(fields: Fields, *, key_heads: int | None = None, head_width: int | None = None, vocab_size: int = 32000,
                 inner: int = 11008, max_positions: int = 2048) -> LlamaConfig:
    """The fields that all relatives share, with the family's defaults; no biases, all layers full."""
    width = fields.integer("hidden_size", 4096)
    layers = fields.integer("num_hidden_layers", 32)
    queries = fields.integer("num_attention_heads", 32)
    keys = fields.integer("num_key_value_heads", queries if key_heads is None or "num_key_value_heads" in fields.raw else key_heads)
    if queries % keys:
        raise fields.refuse("num_key_value_heads", f"a divisor of num_attention_heads = {queries}")
    if width % queries and not (head_width or fields.raw.get("head_dim")):
        raise fields.refuse("hidden_size", f"a multiple of num_attention_heads = {queries}")
    heads = Heads(queries, keys, fields.integer("head_dim", head_width or width // queries))
    positions = fields.integer("max_position_embeddings", max_positions)
    return LlamaConfig(
        vocab_size=fields.integer("vocab_size", vocab_size),
        width=width,
        inner=fields.integer("intermediate_size", inner),
        layers=layers,
        heads=heads,
        activation=fields.choice("hidden_act", "silu", ACTIVATIONS),
        max_positions=positions,
        initializer_range=fields.number("initializer_range", 0.02),
        norm_eps=fields.number("rms_norm_eps", 1e-6),
        tied=fields.boolean("tie_word_embeddings", False),
        rope=read_rope(fields, heads.width, positions),
        windows=(None,) * layers,
        attention_dropout=fields.number("attention_dropout", 0.0, below=1.0),
    )


def read(fields: Fields) -> LlamaConfig:
    """Biases of attention (all four projections) and of the MLP are options of their own."""
    bias = fields.boolean("attention_bias", False)
    return replace(read_decoder(fields), qkv_bias=bias, output_bias=bias, mlp_bias=fields.boolean("mlp_bias", False))


def forward(cfg: LlamaConfig, w: Weights, batch: Batch, attention=self_attention, mlp=gated_mlp) -> Output:
    """x += attention(norm(x)); x += mlp(norm(x)); final norm. Relatives give their own attention or mlp."""
    model = w.at("model")
    x = model.embedding("embed_tokens", batch.ids, cfg.vocab_size, cfg.width)
    rotate = rotation(cfg.rope, batch)
    for index, window in enumerate(cfg.windows):
        layer = model.at("layers", index)
        with region(batch, layer.prefix):
            h = layer.rms_norm("input_layernorm", x, cfg.norm_eps)
            x = x + attention(layer.at("self_attn"), h, batch, cfg.heads, rotate, window=window, qkv_bias=cfg.qkv_bias,
                              output_bias=cfg.output_bias, dropout=cfg.attention_dropout)
            h = layer.rms_norm("post_attention_layernorm", x, cfg.norm_eps)
            x = x + mlp(layer.at("mlp"), h, cfg.inner, cfg.activation, cfg.mlp_bias)
    return language_model(cfg.tied, "model.embed_tokens", w, model.rms_norm("norm", x, cfg.norm_eps), cfg.vocab_size)


def language_model(tied: bool, embedding: str, w: Weights, hidden, vocab_size: int) -> Output:
    """The head: the embedding when tied, `lm_head` of its own otherwise."""
    name = f"{embedding if tied else 'lm_head'}.weight"
    return Output(hidden, w.parameter(name, (vocab_size, hidden.shape[-1])), name)


TINY = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 2048, "hidden_size": 128, "intermediate_size": 352,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "hidden_act": "silu",
    "initializer_range": 0.02,
}

FAMILY = Family("llama", read, forward, tiny=TINY)
