"""GPT-2: LayerNorm before each block, learned positions added to the embedding, fused q, k, v, plain MLP, weights stored [in, out]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.errors import UserError
from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import language_model
from hierarchos.models.sizes import DenseSizes
from hierarchos.nn.attention import Heads, attend, split_heads
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import ACTIVATIONS, activate
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class GPT2Config(DenseSizes):
    """Explicit values; `scales` is the factor on the attention scores of each layer, projection_std initialises each c_proj."""

    scales: tuple[float, ...]
    embedding_dropout: float
    residual_dropout: float
    attention_dropout: float
    projection_std: float


SPELLINGS = {
    "n_embd": "hidden_size", "n_positions": "max_position_embeddings", "n_head": "num_attention_heads", "n_layer": "num_hidden_layers",
}


def read(fields: Fields) -> GPT2Config:
    """Each size under its own name or the common one. reorder_and_upcast_attn only matters in half precision."""
    fields.harmless("n_ctx", "reorder_and_upcast_attn", "summary_type", "summary_use_proj", "summary_activation",
                    "summary_proj_to_labels", "summary_first_dropout")
    size = partial(_size, fields)
    width, layers, count = size("n_embd", 768), size("n_layer", 12), size("n_head", 12)
    if width % count:
        raise fields.refuse("n_embd", f"a multiple of n_head = {count}")
    by_layer = fields.boolean("scale_attn_by_inverse_layer_idx", False)
    spread = fields.number("initializer_range", 0.02)
    scale = (width // count) ** -0.5 if fields.boolean("scale_attn_weights", True) else 1.0
    return GPT2Config(
        vocab_size=fields.integer("vocab_size", 50257),
        max_positions=size("n_positions", 1024),
        width=width,
        inner=fields.integer("n_inner", 4 * width),
        layers=layers,
        heads=Heads(count, count, width // count),
        activation=fields.choice("activation_function", "gelu_new", ACTIVATIONS),
        initializer_range=spread,
        norm_eps=fields.number("layer_norm_epsilon", 1e-5),
        tied=fields.boolean("tie_word_embeddings", True),
        scales=tuple(scale / (index + 1 if by_layer else 1) for index in range(layers)),
        embedding_dropout=fields.number("embd_pdrop", 0.1, below=1.0),
        residual_dropout=fields.number("resid_pdrop", 0.1, below=1.0),
        attention_dropout=fields.number("attn_pdrop", 0.1, below=1.0),
        projection_std=spread / (2 * layers) ** 0.5,
    )


def _size(fields: Fields, name: str, default: int) -> int:
    """A size that may stand under the family's name or under the common one."""
    common = SPELLINGS[name]
    fields.harmless(name, common)
    return fields.integer(common if common in fields.raw and name not in fields.raw else name, default)


def attention(cfg: GPT2Config, w: Weights, x: Tensor, batch: Batch, scale: float) -> Tensor:
    """c_attn gives q, k, v as three blocks; c_proj mixes the heads."""
    parts = F.split(w.linear("c_attn", x, 3 * cfg.width, bias=True, layout="in_out"), (cfg.width,) * 3, axis=2)
    q, k, v = (split_heads(part, cfg.heads.queries, cfg.heads.width) for part in parts)
    return project(cfg, w, attend(w, batch, q, k, v, scale=scale, dropout=cfg.attention_dropout), batch)


def mlp(cfg: GPT2Config, w: Weights, x: Tensor, batch: Batch, layout: str = "in_out") -> Tensor:
    """c_proj(activation(c_fc(x)))."""
    return project(cfg, w, activate(cfg.activation, w.linear("c_fc", x, cfg.inner, bias=True, layout=layout)), batch, layout)


def project(cfg: GPT2Config, w: Weights, x: Tensor, batch: Batch, layout: str = "in_out") -> Tensor:
    """c_proj back to the residual stream, with dropout."""
    out = w.linear("c_proj", x, cfg.width, bias=True, layout=layout, std=cfg.projection_std)
    return dropout(out, cfg.residual_dropout, batch, w.name("c_proj"))


def embedded(cfg, model: Weights, batch: Batch, tokens: str = "wte", positions: str = "wpe") -> Tensor:
    """The sum of two tables' rows, [B,T,D]; raises `UserError` where a row is longer than the table of positions."""
    limit = cfg.max_positions
    if batch.max_positions > limit:
        raise UserError(f"rows of {batch.max_positions} tokens do not fit: the model has {limit} learned positions (n_positions)",
                        hint="shorten the rows, or train a model with more positions")
    x = model.embedding(tokens, batch.ids, cfg.vocab_size, cfg.width)
    x = x + model.embedding(positions, batch.positions, limit, cfg.width)
    return dropout(x, cfg.embedding_dropout, batch, model.name(tokens))


def forward(cfg: GPT2Config, w: Weights, batch: Batch, attention=attention, mlp=mlp) -> Output:
    """x += attention(norm(x)); x += mlp(norm(x)); final norm."""
    model = w.at("transformer")
    x = embedded(cfg, model, batch)
    for index, scale in enumerate(cfg.scales):
        layer = model.at("h", index)
        with region(batch, layer.prefix):
            x = x + attention(cfg, layer.at("attn"), layer.layer_norm("ln_1", x, cfg.norm_eps), batch, scale)
            x = x + mlp(cfg, layer.at("mlp"), layer.layer_norm("ln_2", x, cfg.norm_eps), batch)
    return language_model(cfg.tied, "transformer.wte", w, model.layer_norm("ln_f", x, cfg.norm_eps), cfg.vocab_size)


GPT2_TINY = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 2048, "n_positions": 512, "n_embd": 128, "n_layer": 4,
    "n_head": 4, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "tie_word_embeddings": True,
    "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0}

FAMILY = Family("gpt2", read, forward, base="transformer", embedding="transformer.wte.weight",
                buffers=(r"\.attn\.(bias|masked_bias)$",), tiny=GPT2_TINY)
