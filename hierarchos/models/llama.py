"""Llama: RMSNorm before each block, rotary positions, grouped queries, gated MLP. Base of other families."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.rope_config import read_rope
from hierarchos.models.sizes import DenseSizes
from hierarchos.nn.attention import Heads, rotations, self_attention
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import ACTIVATIONS, gated_mlp
from hierarchos.nn.rotary import Rope
from hierarchos.nn.weights import ZEROS, Weights


@dataclass(frozen=True)
class LlamaConfig(DenseSizes):
    """Explicit values of a Llama-like decoder. One entry a layer: `ropes` (None: no rotation), `windows` (None: full attention).

    numbers: of the layers in packages, where there are others between them. extra_rows: of the embedding, for ids that no text has."""

    ropes: tuple[Rope | None, ...]
    windows: tuple[int | None, ...]
    attention_dropout: float
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    logit_scale: float = 1.0
    logit_softcap: float | None = None
    residual_dropout: float = 0.0
    embedding_dropout: float = 0.0
    embedding_std: float | None = None
    numbers: tuple[int, ...] = ()
    extra_rows: int = 0


def read_decoder(fields: Fields, *, activation: str = "hidden_act", activations=ACTIVATIONS, eps: str | float = "rms_norm_eps",
                 layout: str = "half", rope=read_rope) -> LlamaConfig:
    """The fields that all relatives share: no biases, all layers full. Relatives `assume` their own defaults before.

    activation, eps: what the family calls these fields (eps may be a number instead). layout: of the rotation.
    rope(fields, head width, positions): reads the rope of all layers; None where the family sets `ropes` itself."""
    width = fields.integer("hidden_size", 4096)
    layers = fields.integer("num_hidden_layers", 32)
    queries = fields.integer("num_attention_heads", 32)
    keys = fields.integer("num_key_value_heads", queries)
    if queries % keys:
        raise fields.refuse("num_key_value_heads", f"a divisor of num_attention_heads = {queries}")
    if width % queries and not fields.any("head_dim"):
        raise fields.refuse("hidden_size", f"a multiple of num_attention_heads = {queries}")
    heads = Heads(queries, keys, fields.integer("head_dim", width // queries))
    positions = fields.integer("max_position_embeddings", 2048)
    return LlamaConfig(
        vocab_size=fields.integer("vocab_size", 32000),
        width=width,
        inner=fields.integer("intermediate_size", 11008),
        layers=layers,
        heads=heads,
        activation=fields.choice(activation, "silu", activations),
        max_positions=positions,
        initializer_range=fields.number("initializer_range", 0.02),
        norm_eps=eps if isinstance(eps, float) else fields.number(eps, 1e-6),
        tied=fields.boolean("tie_word_embeddings", False),
        ropes=(replace(rope(fields, heads.width, positions), layout=layout) if rope else None,) * layers,
        windows=(None,) * layers,
        attention_dropout=fields.number("attention_dropout", 0.0, below=1.0),
    )


def extended(kind, cfg: LlamaConfig, **values):
    """The values of a relative that has more of them: `kind` is a subclass of LlamaConfig."""
    return kind(**{**vars(cfg), **values})


def read(fields: Fields) -> LlamaConfig:
    """Biases of attention (all four projections) and of the MLP are options of their own."""
    bias = fields.boolean("attention_bias", False)
    return replace(read_decoder(fields), qkv_bias=bias, output_bias=bias, mlp_bias=fields.boolean("mlp_bias", False))


def pre_norm(layer: Weights, x: Tensor, norm, attention, mlp) -> Tensor:
    """x += attention(norm(x)); x += mlp(norm(x))."""
    x = x + attention(norm(layer, "input_layernorm", x))
    return x + mlp(norm(layer, "post_attention_layernorm", x))


def trunk(cfg: LlamaConfig, model: Weights, batch: Batch, *, attention=self_attention, mlp=gated_mlp, norm=Weights.rms_norm, block=pre_norm,
          entrance=None, final_norm: str = "norm") -> Tensor:
    """Embedding, blocks, final norm below `model`: [B,T,D]. Relatives give their own attention, mlp, norm, order of a block, or change of
    the embedding."""
    norm = partial(norm, eps=cfg.norm_eps)
    x = model.embedding("embed_tokens", batch.ids, cfg.vocab_size + cfg.extra_rows, cfg.width, cfg.embedding_std)
    x = dropout(entrance(x) if entrance else x, cfg.embedding_dropout, batch, "embed_tokens")
    numbers = cfg.numbers or range(cfg.layers)
    for index, rotate, window in zip(numbers, rotations(cfg.ropes, batch), cfg.windows, strict=True):
        layer = model.at("layers", index)
        mix = partial(attention, layer.at("self_attn"), batch=batch, heads=cfg.heads, rotate=rotate, window=window, qkv_bias=cfg.qkv_bias,
                      output_bias=cfg.output_bias, dropout=cfg.attention_dropout)
        feed = partial(mlp, layer.at("mlp"), inner=cfg.inner, activation=cfg.activation, bias=cfg.mlp_bias)
        with region(batch, layer.prefix):
            x = block(layer, x, norm, dropped(mix, cfg, batch, layer.name("self_attn")), dropped(feed, cfg, batch, layer.name("mlp")))
    return norm(model, final_norm, x)


def forward(cfg: LlamaConfig, w: Weights, batch: Batch, *, head_bias: bool = False, **parts) -> Output:
    """The trunk and the head; parts: see `trunk`."""
    hidden = trunk(cfg, w.at("model"), batch, **parts)
    return language_model(cfg.tied, "model.embed_tokens", w, hidden, cfg.vocab_size, bias=head_bias, scale=cfg.logit_scale,
                          softcap=cfg.logit_softcap)


def dropped(sublayer, cfg: LlamaConfig, batch: Batch, place: str):
    """The sublayer with the residual dropout on what it gives."""
    return lambda x: dropout(sublayer(x), cfg.residual_dropout, batch, place)


def language_model(tied: bool, embedding: str, w: Weights, hidden: Tensor, vocab_size: int, *, bias: bool = False, head: str = "lm_head",
                   **bend) -> Output:
    """The head: the embedding when tied, `lm_head` of its own otherwise; `lm_head.bias`. bend: scale and softcap of the logits."""
    name = f"{embedding if tied else head}.weight"
    offset = w.parameter(f"{head}.bias", (vocab_size,), ZEROS) if bias else None
    return Output(hidden, w.parameter(name, (vocab_size, hidden.shape[-1])), name, offset, **bend)


TINY = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 2048, "hidden_size": 128, "intermediate_size": 352,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "hidden_act": "silu",
    "initializer_range": 0.02,
}

FAMILY = Family("llama", read, forward, tiny=TINY)
