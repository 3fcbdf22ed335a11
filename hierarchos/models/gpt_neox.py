"""GPT-NeoX: attention and MLP in parallel with a LayerNorm each, or one after the other; q, k, v in one projection ordered by head,
rotation of a part of each head, plain MLP, biases."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.disk import Disk
from hierarchos.models.family import Family
from hierarchos.models.llama import language_model
from hierarchos.models.rope_config import read_rope
from hierarchos.models.sizes import DenseSizes
from hierarchos.nn.attention import Heads, fused_by_head, rotation, self_attention
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import ACTIVATIONS, plain_mlp
from hierarchos.nn.rotary import Rope
from hierarchos.nn.weights import Weights

MLP = ("dense_h_to_4h", "dense_4h_to_h")


@dataclass(frozen=True)
class NeoXConfig(DenseSizes):
    """Explicit values; parallel: attention and MLP read the same x."""

    rope: Rope
    parallel: bool
    attention_bias: bool
    mlp_bias: bool
    attention_dropout: float
    hidden_dropout: float


def read_neox(fields: Fields, inner: int, **options) -> NeoXConfig:
    """What both NeoX families share. Older files say rotary_emb_base and rotary_pct."""
    fields.spelled(rope_theta="rotary_emb_base", partial_rotary_factor="rotary_pct")
    width, count = fields.integer("hidden_size", 6144), fields.integer("num_attention_heads", 64)
    if width % count:
        raise fields.refuse("hidden_size", f"a multiple of num_attention_heads = {count}")
    positions = fields.integer("max_position_embeddings", 2048)
    return NeoXConfig(
        vocab_size=fields.integer("vocab_size", 50432),
        width=width,
        inner=inner,
        layers=fields.integer("num_hidden_layers", 44),
        heads=Heads(count, count, width // count),
        activation=fields.choice("hidden_act", "gelu", ACTIVATIONS),
        max_positions=positions,
        initializer_range=fields.number("initializer_range", 0.02),
        norm_eps=fields.number("layer_norm_eps", 1e-5),
        tied=fields.boolean("tie_word_embeddings", False),
        rope=read_rope(fields, width // count, positions),
        attention_dropout=fields.number("attention_dropout", 0.0, below=1.0),
        hidden_dropout=fields.number("hidden_dropout", 0.0, below=1.0),
        **options,
    )


def read(fields: Fields) -> NeoXConfig:
    """attention_bias is on both projections of the attention; the MLP always has biases."""
    fields.assume(partial_rotary_factor=0.25)
    fields.harmless("classifier_dropout")
    return read_neox(fields, fields.integer("intermediate_size", 24576), parallel=fields.boolean("use_parallel_residual", True),
                     attention_bias=fields.boolean("attention_bias", True), mlp_bias=True)


def attend_and_feed(cfg: NeoXConfig, layer: Weights, batch: Batch, rotate):
    """The two halves of a block: functions of the normed x."""
    def attention(h: Tensor) -> Tensor:
        return self_attention(layer.at("attention"), h, batch, cfg.heads, rotate, project=fused_by_head, output="dense",
                              qkv_bias=cfg.attention_bias, output_bias=cfg.attention_bias, dropout=cfg.attention_dropout)

    def mlp(h: Tensor) -> Tensor:
        fed = plain_mlp(layer.at("mlp"), h, cfg.inner, cfg.activation, cfg.mlp_bias, MLP)
        return dropout(fed, cfg.hidden_dropout, batch, layer.name("mlp"))

    return attention, mlp


def forward(cfg: NeoXConfig, w: Weights, batch: Batch) -> Output:
    """x += attention(norm(x)) + mlp(norm(x)), or the MLP after the attention; final norm."""
    model = w.at("gpt_neox")
    x = dropout(model.embedding("embed_in", batch.ids, cfg.vocab_size, cfg.width), cfg.hidden_dropout, batch, model.name("embed_in"))
    rotate = rotation(cfg.rope, batch)
    for index in range(cfg.layers):
        layer = model.at("layers", index)
        attention, mlp = attend_and_feed(cfg, layer, batch, rotate)
        with region(batch, layer.prefix):
            mixed = attention(layer.layer_norm("input_layernorm", x, cfg.norm_eps))
            after = x + dropout(mixed, cfg.hidden_dropout, batch, layer.name("attention"))
            x = after + mlp(layer.layer_norm("post_attention_layernorm", x if cfg.parallel else after, cfg.norm_eps))
    return language_model(cfg.tied, "gpt_neox.embed_in", w, model.layer_norm("final_layer_norm", x, cfg.norm_eps), cfg.vocab_size)


NEOX_TINY = {
    "vocab_size": 2048, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "max_position_embeddings": 512,
    "hidden_act": "gelu", "layer_norm_eps": 1e-5, "initializer_range": 0.02, "attention_dropout": 0.0, "hidden_dropout": 0.0}

FAMILY = Family("gpt_neox", read, forward, base="gpt_neox", embedding="gpt_neox.embed_in.weight",
                disk=Disk(names=(("lm_head", "embed_out"),)),
                buffers=(r"attention\.(bias|masked_bias)$", r"rotary_emb\.inv_freq$"),
                tiny={"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], **NEOX_TINY, "intermediate_size": 512})
